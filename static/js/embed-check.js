// /embed/check: shows a portal's owner what blocks a frame, one line a question.
(() => {
  const list = document.querySelector("[data-checks]");
  const say = (good, text) => {
    const item = document.createElement("li");
    item.dataset.good = good;
    item.textContent = text;
    list.append(item);
  };
  const framed = window.parent !== window;
  say(true, framed ? "This page is inside a frame, so frame-ancestors lets the page around it." : "This page is not inside a frame. Open it in the portal's frame to check that.");
  if (framed && location.ancestorOrigins) say(true, `The pages around it: ${[...location.ancestorOrigins].join(", ")}.`);
  try {
    localStorage.setItem("check", "1");
    localStorage.removeItem("check");
    say(true, "Storage works; the reader's choice of colours is kept.");
  } catch {
    say(true, "Storage is refused here. Nothing needs it: the choice of colours lasts as long as the page.");
  }
  say(true, navigator.cookieEnabled ? "Cookies are allowed. Pages that are open to all need none." : "Cookies are blocked. Pages that are open to all need none; where readers sign in, use an embed link.");

  const url = list.dataset.checks;
  const started = Date.now();
  fetch(url, { headers: { "HX-Request": "true" }, cache: "no-store" }).then((answer) => {
    const ours = answer.ok && answer.headers.has("X-Enginehouse-Fragment");
    say(ours, ours ? `Blocks refresh from ${url}.` : `A block from ${url} came back as ${answer.status} ${answer.headers.get("Content-Type") ?? ""}: a proxy or a sign-in page comes between.`);
    const skew = Math.round((Date.parse(answer.headers.get("Date")) - (started + Date.now()) / 2) / 1000);
    if (Number.isFinite(skew)) say(Math.abs(skew) < 60, Math.abs(skew) < 60 ? "This computer's clock agrees with the control plane's." : `This computer's clock is ${Math.abs(skew)} s ${skew > 0 ? "behind" : "ahead of"} the control plane's; ages are computed by the control plane, and are right all the same.`);
    const policy = answer.headers.get("Content-Security-Policy") ?? "";
    const ancestors = policy.match(/frame-ancestors ([^;]*)/)?.[1];
    say(Boolean(ancestors), ancestors ? `The answer allows frames on: ${ancestors}.` : "The answer came without frame-ancestors: a proxy dropped the Content-Security-Policy.");
    const old = answer.headers.get("X-Frame-Options");
    say(!old, old ? `A proxy adds X-Frame-Options: ${old}, which blocks frames.` : "No X-Frame-Options header blocks frames.");
  }).catch((error) => say(false, `A block from ${url} could not be fetched: ${error.message}`));
})();
