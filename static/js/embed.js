// In a frame: posts to the parent how high the page is, as {source: "enginehouse", type: "height", height: pixels}.
// The height is no secret, so any parent may get it; frame-ancestors says which pages may frame us.
(() => {
  if (window.parent === window) return;
  let posted = 0;
  const post = () => {
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    if (height === posted) return;
    posted = height;
    window.parent.postMessage({ source: "enginehouse", type: "height", height }, "*");
  };
  new ResizeObserver(post).observe(document.body);
  addEventListener("load", post);
})();
