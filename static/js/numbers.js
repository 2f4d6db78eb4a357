// <details class="numbers"><summary>...</summary><div hx-get="..." hx-trigger="opened">: fetches its content when it is opened.
(() => {
  document.addEventListener(
    "toggle",
    (event) => {
      const details = event.target;
      if (details.matches?.("details.numbers") && details.open) htmx.trigger(details.querySelector("[hx-get]"), "opened");
    },
    true, // toggle does not bubble
  );
  // A proxy's login page is an answer, but not ours: every fragment of ours says so in a header.
  document.addEventListener("htmx:after:request", (event) => {
    const { sourceElement, response } = event.detail.ctx;
    if (sourceElement.closest("details.numbers") && !response.headers.has("X-Enginehouse-Fragment")) event.preventDefault();
  });
})();
