for (const button of document.querySelectorAll("button[data-copies]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      // Without clipboard access the text is selected, ready for the keyboard.
      getSelection().selectAllChildren(source);
      if (!document.execCommand("copy")) return;
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
