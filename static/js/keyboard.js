// Keys of the nodes' page: "/" searches, j and k move through the rows, Enter opens one, "?" lists the keys.
(() => {
  const help = document.createElement("dialog");
  help.className = "keys";
  help.innerHTML = "<h2>Keys</h2><dl><dt>/</dt><dd>search</dd><dt>j, k</dt><dd>next, previous node</dd><dt>Enter</dt><dd>end the search; open the node</dd><dt>Esc</dt><dd>clear the search</dd><dt>?</dt><dd>this list</dd></dl><form method=dialog><button>Close</button></form>";
  document.body.append(help);

  const links = () => [...document.querySelectorAll(".nodes tbody .col-name > a:first-child, .map a, .list li > a:not(.model)")];
  const move = (by) => {
    const all = links();
    const at = all.indexOf(document.activeElement);
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.querySelector("input[type=search]");
    const actions = { "/": () => search?.focus(), j: () => move(1), k: () => move(-1), "?": () => help.showModal() };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  });
})();
