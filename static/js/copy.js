// <button data-copy="text">copy</button>: puts the text on the clipboard and says so.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  const said = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    button.textContent = "the browser refused";
  }
  setTimeout(() => { button.textContent = said; }, 1500);
});
