// Blocks that refresh by themselves: <section data-block="SECONDS" hx-get="..." hx-trigger="every 5s, refresh">.
// A hidden tab asks for nothing and asks at once when it is shown again. A block whose last two turns failed
// is greyed and says for how long it has not been refreshed. A reader whose session has ended is told so, and the
// blocks ask only once a minute from then on.
(() => {
  // Milliseconds, those that the computer slept through included: a browser's own clock may stand still in them.
  let slept = 0;
  const now = () => performance.now() + slept;
  const refreshed = new WeakMap();
  const shown = new WeakMap(); // block -> address and tag of what it shows, so that the server need not send it again
  let signedOut = null;
  const opened = now();
  const blocks = () => document.querySelectorAll("[data-block]");

  document.addEventListener("htmx:before:request", (event) => {
    const waits = signedOut !== null && now() - signedOut < 60_000;
    const { sourceElement, request } = event.detail.ctx;
    if (!sourceElement.matches("[data-block]")) return;
    if (document.hidden || waits) event.preventDefault();
    const known = shown.get(sourceElement);
    if (known?.address === request.action) request.headers["If-None-Match"] = known.tag;
    if (known && sourceElement.querySelector("plotly-figure")) request.headers["A-IM"] = "figure-changes";
  });

  document.addEventListener("htmx:after:request", (event) => {
    const { sourceElement, request, response } = event.detail.ctx;
    if (!sourceElement.matches("[data-block]")) return;
    // A proxy's login page is an answer, but not ours: every fragment of ours says so in a header.
    const ours = response.status < 400 && response.headers.has("X-Enginehouse-Fragment");
    signedOut = response.headers.has("X-Enginehouse-Signed-Out") ? now() : null;
    if (ours) {
      refreshed.set(sourceElement, now());
      if (response.status !== 304) shown.set(sourceElement, { address: request.action, tag: response.headers.get("ETag") ?? "" });
      watch();
    } else if (response.status < 400 && response.status !== 304) {
      event.preventDefault();
    }
    if (signedOut !== null) watch();
  });

  const span = (seconds) => (seconds < 120 ? `${Math.round(seconds)} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`);

  const watch = () => {
    if (document.hidden) return;
    for (const block of blocks()) {
      const silent = (now() - (refreshed.get(block) ?? opened)) / 1000;
      const late = silent > 2 * Number(block.dataset.block) + 2;
      if (signedOut !== null) block.dataset.unrefreshed = `signed out: reload the page to sign in; not refreshed for ${span(silent)}`;
      else if (late) block.dataset.unrefreshed = `not refreshed for ${span(silent)}`;
      else delete block.dataset.unrefreshed;
    }
  };

  let ticked = { wall: Date.now(), own: performance.now() };
  setInterval(() => {
    const tick = { wall: Date.now(), own: performance.now() };
    const missed = tick.wall - ticked.wall - (tick.own - ticked.own);
    const woke = tick.wall - ticked.wall > 10_000;
    ticked = tick;
    if (missed > 2000) slept += missed;
    if (woke && !document.hidden) refreshAll();
    else watch();
  }, 1000);

  // A figure got a change to a version that it does not have: its block is asked for as a whole.
  document.addEventListener("figure-unknown", (event) => {
    const block = event.target.closest("[data-block]");
    if (shown.delete(block)) htmx.trigger(block, "refresh");
  });

  const refreshAll = () => {
    watch();
    for (const block of blocks()) htmx.trigger(block, "refresh");
  };
  document.addEventListener("visibilitychange", () => document.hidden || refreshAll());
  window.addEventListener("pageshow", (event) => event.persisted && refreshAll());
  window.addEventListener("online", refreshAll);
})();
