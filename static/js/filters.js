// A form that chooses what a block shows: <form data-filters="#block">. Its fields become the page's address, and
// the block, which includes the form, refreshes at once. Without scripts the form is sent as usual.
(() => {
  const form = document.querySelector("form[data-filters]");
  if (!form) return;
  const block = document.querySelector(form.dataset.filters);
  const order = { sort: form.elements.sort, order: form.elements.order };
  // Values that need not be in the address.
  const initial = { sort: "name", order: "asc", view: "table", measure: "cpu" };

  // Boxes of a list of names become one field, which is empty while all are chosen.
  const list = (fieldset) => {
    const boxes = [...fieldset.querySelectorAll("input")];
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    form.elements[fieldset.dataset.list].value = chosen.length === boxes.length ? "" : chosen.join(",");
  };

  const apply = () => {
    if (form.elements.page) form.elements.page.value = ""; // other rows: from the first
    const query = new URLSearchParams();
    for (const [name, value] of new FormData(form)) if (value && value !== initial[name]) query.append(name, value);
    if (query.get("sort") && !query.has("order")) query.set("order", order.order.value);
    const text = query.toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
    htmx.trigger(block, "htmx:abort");
    htmx.trigger(block, "refresh");
  };

  let typing;
  form.addEventListener("input", (event) => {
    const boxes = event.target.closest("[data-list]");
    if (boxes) list(boxes);
    clearTimeout(typing);
    typing = setTimeout(apply, event.target.type === "search" ? 200 : 0);
    if (event.target.closest(".chosen")) event.target.closest(".chosen").remove();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    document.activeElement.blur(); // so that j and k move through what was found
    apply();
  });
  block.addEventListener("click", (event) => {
    const head = event.target.closest("a[data-sort]");
    if (!head || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    order.sort.value = head.dataset.sort;
    order.order.value = head.dataset.order;
    apply();
  });
})();
