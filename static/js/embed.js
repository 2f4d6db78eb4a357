// In a frame: tells the parent how high the page is, as {source: "enginehouse", type: "height", height: pixels}.
// The height is no secret, so any parent may hear it; which pages may frame us is said by frame-ancestors.
(() => {
  if (window.parent === window) return;
  let told = 0;
  const tell = () => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    if (height === told) return;
    told = height;
    window.parent.postMessage({ source: "enginehouse", type: "height", height }, "*");
  };
  new ResizeObserver(tell).observe(document.body);
  addEventListener("load", tell);
})();
