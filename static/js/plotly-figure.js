// <plotly-figure figure='{"data": [...], "layout": {...}}'>: draws the figure, redraws when the attribute changes and
// keeps the reader's zoom. Draws in a child of its own, so that a morph of the element leaves the drawing alone.
// Text, grid and the band of a range follow the page's colours. Figures on one page share hover and zoom.
(() => {
  const CONFIG = { displayModeBar: false, responsive: false, doubleClick: "reset", scrollZoom: false };
  const figures = new Set();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const themed = (layout) => {
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--rule-strong"), zerolinecolor: colour("--rule-strong"), tickfont: { color: colour("--muted") } };
    return {
      ...layout,
      font: { ...layout.font, color: colour("--ink"), family: colour("--sans") },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
      hoverlabel: { ...layout.hoverlabel, bgcolor: colour("--panel"), bordercolor: colour("--rule-strong"), font: { color: colour("--ink"), size: 12 } },
    };
  };

  const dark = matchMedia("(prefers-color-scheme: dark)");

  // A figure comes in light colours; the list around it says which to replace on a dark page.
  const recoloured = (text, list) => {
    if (!dark.matches || !list) return text;
    const replacements = JSON.parse(list);
    return text.replace(/#[0-9a-f]{6}/g, (found) => replacements[found] ?? found);
  };

  class PlotlyFigure extends HTMLElement {
    static observedAttributes = ["figure"];

    connectedCallback() {
      this.canvas ??= this.appendChild(document.createElement("div"));
      this.canvas.style.height = "100%";
      figures.add(this);
      this.sized = new ResizeObserver(() => this.clientWidth && this.draw());
      this.sized.observe(this);
    }

    disconnectedCallback() {
      this.sized.disconnect();
      figures.delete(this);
      if (this.drawn) Plotly.purge(this.canvas);
      this.drawn = false;
    }

    attributeChangedCallback() {
      if (this.canvas && this.clientWidth) this.draw();
    }

    draw() {
      const text = this.getAttribute("figure");
      if (!text) return;
      const { data, layout } = JSON.parse(recoloured(text, this.closest("[data-dark]")?.dataset.dark));
      Plotly.react(this.canvas, data, { ...themed(layout), width: this.clientWidth, height: this.clientHeight }, CONFIG);
      if (this.drawn) return;
      this.drawn = true;
      this.canvas.on("plotly_relayout", (change) => this.shareZoom(change));
      this.canvas.on("plotly_hover", (event) => this.shareHover(event));
      this.canvas.on("plotly_unhover", () => this.shareHover(null));
    }

    // Passed on once: the others' own events find nothing left to change.
    shareZoom(change) {
      const range = change["xaxis.range"] ?? (change["xaxis.range[0]"] && [change["xaxis.range[0]"], change["xaxis.range[1]"]]);
      const reset = change["xaxis.autorange"] || (change["xaxis.range"] === undefined && "xaxis.showspikes" in change);
      if (!range && !reset) return;
      for (const other of figures) {
        if (other === this || !other.drawn) continue;
        const now = other.canvas.layout.xaxis.range;
        if (range && now[0] === range[0] && now[1] === range[1]) continue;
        Plotly.relayout(other.canvas, range ? { "xaxis.range": range } : { "xaxis.range": [...JSON.parse(other.getAttribute("figure")).layout.xaxis.range] });
      }
    }

    shareHover(event) {
      if (PlotlyFigure.sharing) return;
      PlotlyFigure.sharing = true;
      for (const other of figures) {
        if (other === this || !other.drawn) continue;
        if (event) Plotly.Fx.hover(other.canvas, { xval: event.xvals?.[0] ?? event.points[0].x });
        else Plotly.Fx.unhover(other.canvas);
      }
      PlotlyFigure.sharing = false;
    }
  }
  customElements.define("plotly-figure", PlotlyFigure);

  dark.addEventListener("change", () => figures.forEach((figure) => figure.draw()));
})();
