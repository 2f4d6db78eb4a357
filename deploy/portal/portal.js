// Fills each frame and gives it the height that the page in it posts.
const main = document.querySelector("main");
const home = new URLSearchParams(location.search).get("enginehouse") ?? main.dataset.enginehouse;

for (const frame of document.querySelectorAll("iframe[data-path]")) frame.src = home + frame.dataset.path;

addEventListener("message", (event) => {
  if (event.origin !== new URL(home).origin || event.data?.source !== "enginehouse" || event.data.type !== "height") return;
  for (const frame of document.querySelectorAll("iframe[data-path]")) {
    if (frame.contentWindow === event.source) frame.style.height = `${Math.min(4000, event.data.height + 16)}px`;
  }
});
