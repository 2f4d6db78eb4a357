// <spark-line levels="aabcz-m">: a line of the last hour; "a" is 0 %, "z" 100 %, "-" a silence, which breaks the line.
customElements.define("spark-line", class extends HTMLElement {
  static observedAttributes = ["levels"];

  attributeChangedCallback() {
    const levels = this.getAttribute("levels") ?? "";
    let path = "";
    let pen = "M";
    for (let index = 0; index < levels.length; index++) {
      if (levels[index] === "-") {
        pen = "M";
        continue;
      }
      const y = 25 - (levels.charCodeAt(index) - 97);
      path += `${pen}${index * 2} ${y}${pen === "M" ? "h.1" : ""}`;
      pen = "L";
    }
    this.drawing ??= this.drawn();
    this.drawing.setAttribute("d", path);
  }

  drawn() {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "-1 -1 62 28");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const path = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
    this.append(svg);
    return path;
  }
});
