// <plotly-figure figure='{"version": "...", "data": [...], "layout": {...}}'>: draws the figure, redraws when the attribute
// changes and keeps the reader's zoom. Instead of a whole figure the attribute may say what changed since a version:
// {"from": "...", "change": {...}}, as webapp/charts/changes.py writes it; for a version that it does not have it
// sends the event figure-unknown. Draws in a child of its own, so that a morph of the element leaves the drawing alone.
// Text, grid and the band of a range follow the page's colours. Figures on one page share hover and zoom.
(() => {
  const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, scrollZoom: false };
  const figures = new Set();

  // A colour by its name, or by light-dark(), as the page shows it now.
  const probe = document.createElement("i");
  probe.hidden = true;
  const colour = (value) => {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = value.startsWith("--") ? `var(${value})` : value;
    return getComputedStyle(probe).color;
  };
  const isDark = () => colour("light-dark(#fff, #000)") === "rgb(0, 0, 0)";
  const SANS = getComputedStyle(document.documentElement).getPropertyValue("--sans");

  const themed = (layout) => {
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--rule-strong"), zerolinecolor: colour("--rule-strong"), tickfont: { color: colour("--muted") } };
    return {
      ...layout,
      font: { ...layout.font, color: colour("--ink"), family: SANS },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis },
      hoverlabel: { ...layout.hoverlabel, bgcolor: colour("--panel"), bordercolor: colour("--rule-strong"), font: { color: colour("--ink"), size: 12 } },
    };
  };

  // A figure comes in light colours; the list around it says which to replace on a dark page.
  const recoloured = (text, list) => {
    if (!list || !isDark()) return text;
    const replacements = JSON.parse(list);
    return text.replace(/#[0-9a-f]{6}/g, (found) => replacements[found] ?? found);
  };

  // Times come as UTC; plotly shows what it is given, so local times are given to it where the reader wants them: all by
  // the offset at the range's end, since a clock that is set back within the range would have an hour twice.
  let local = false;
  const zoned = (text) => {
    if (!local) return text;
    const minutes = -new Date(JSON.parse(text).layout.xaxis.range[1]).getTimezoneOffset();
    const hours = `${Math.floor(Math.abs(minutes) / 60)}${minutes % 60 ? `:${Math.abs(minutes % 60)}` : ""}`;
    document.querySelector("select[data-zone-choice] [value=local]").textContent = `local time, UTC${minutes < 0 ? "−" : "+"}${hours}`;
    return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (found) => new Date(Date.parse(found) + minutes * 60000).toISOString().slice(0, -1));
  };

  // The value after a change; see webapp/charts/changes.py.
  const applied = (before, change) => {
    if (Array.isArray(change)) {
      if (change.length === 1) return change[0];
      const [drop, keep, tail] = change;
      return before.slice(drop, drop + keep).concat(tail);
    }
    const after = Array.isArray(before) ? [...before] : { ...before };
    for (const [name, part] of Object.entries(change)) {
      if (Array.isArray(part) && part.length === 0) delete after[name];
      else after[name] = applied(before[name], part);
    }
    return after;
  };

  class PlotlyFigure extends HTMLElement {
    static observedAttributes = ["figure"];

    whole = null; // the figure as it was sent, in light colours and UTC

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

    attributeChangedCallback(name, before, text) {
      if (text === null) return; // nothing is known now: what was drawn stays
      const sent = JSON.parse(text);
      if (sent.from === undefined) this.whole = sent;
      else if (sent.from === this.whole?.version) this.whole = applied(this.whole, sent.change);
      else queueMicrotask(() => this.dispatchEvent(new Event("figure-unknown", { bubbles: true })));
      if (this.canvas && this.clientWidth) this.draw();
    }

    draw() {
      const figure = this.figure();
      if (!figure) return;
      const layout = { ...themed(figure.layout), width: this.clientWidth, height: this.clientHeight };
      if (PlotlyFigure.zoom) layout.xaxis.range = [...PlotlyFigure.zoom];
      Plotly.react(this.canvas, figure.data, layout, CONFIG);
      if (this.drawn) return;
      this.drawn = true;
      this.canvas.on("plotly_relayout", (change) => change["xaxis.range[0]"] && zoom([change["xaxis.range[0]"], change["xaxis.range[1]"]]));
      this.canvas.on("plotly_doubleclick", () => zoom(null));
      this.canvas.on("plotly_hover", (event) => this.shareHover(event));
      this.canvas.on("plotly_unhover", () => this.shareHover(null));
    }

    figure() {
      return this.whole && JSON.parse(zoned(recoloured(JSON.stringify(this.whole), this.closest("[data-dark]")?.dataset.dark)));
    }

    shareHover(event) {
      if (PlotlyFigure.sharing) return;
      PlotlyFigure.sharing = true;
      const at = event && Date.parse(`${String(event.xvals[0]).replace(" ", "T")}Z`);
      for (const other of figures) {
        if (other === this || !other.drawn) continue;
        if (event) Plotly.Fx.hover(other.canvas, { xval: at });
        else Plotly.Fx.unhover(other.canvas);
      }
      PlotlyFigure.sharing = false;
    }
  }
  PlotlyFigure.zoom = null;

  // One zoom for all figures of the page; kept here, since each refresh brings a newer range.
  const zoom = (range) => {
    PlotlyFigure.zoom = range;
    for (const figure of figures) if (figure.drawn) Plotly.relayout(figure.canvas, { "xaxis.range": [...(range ?? figure.figure().layout.xaxis.range)] });
  };
  document.addEventListener("change", (event) => {
    if (!event.target.matches("select[data-zone-choice]")) return;
    local = event.target.value === "local";
    zoom(null);
    figures.forEach((figure) => figure.drawn && figure.draw());
  });
  customElements.define("plotly-figure", PlotlyFigure);

  document.addEventListener("theme", () => figures.forEach((figure) => figure.draw()));
})();
