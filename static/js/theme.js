// <html data-theme="light|dark">: the reader's choice. `theme=` in the address comes before what was chosen earlier;
// where storage is refused (a sandboxed frame) the choice lasts as long as the page. Loaded before the first paint.
(() => {
  const root = document.documentElement;
  const themes = ["light", "dark"];
  const remembered = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const show = (theme) => {
    if (themes.includes(theme)) root.dataset.theme = theme;
    else delete root.dataset.theme;
    document.dispatchEvent(new CustomEvent("theme"));
  };
  const asked = new URLSearchParams(location.search).get("theme");
  show(asked ?? remembered());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("theme")));

  document.addEventListener("change", (event) => {
    if (!event.target.matches("select[data-theme-choice]")) return;
    try { localStorage.setItem("theme", event.target.value); } catch { /* it lasts as long as the page */ }
    show(event.target.value);
  });
  document.addEventListener("DOMContentLoaded", () => {
    const choice = document.querySelector("select[data-theme-choice]");
    if (choice) choice.value = root.dataset.theme ?? "";
  });
})();
