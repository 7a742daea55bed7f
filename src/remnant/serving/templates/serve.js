// The page: its sections, the summary of the store, and its updates.

import "./ask.js";
import "./check.js";
import "./memory.js";
import { $, bytes, call, confirmed, element, number, percent, plural, withErrors } from "./parts.js";
import { afterRefresh, refresh, state } from "./store.js";
import { clearResult } from "./teach.js";

const UNDO = "The store becomes what it was before its last update. Only this one update can be undone, and it cannot be brought back.";

function showStore() {
  const store = state.store;
  $("summary").textContent = `${plural(store.num_classes, "class", "classes")}, method ${store.method}, images of ${store.image_size} px, ${bytes(store.file_bytes)} on disk.`;
  $("history").replaceChildren(...store.history.toReversed().map(historyRow));
}

function historyRow(one) {
  const cell = (text, className = "") => element("td", { textContent: text, className });
  const day = element("th", { textContent: one.when ?? "", className: "plain", scope: "row" });
  if (one.forgotten_classes) return element("tr", {}, day, cell(plural(one.forgotten_classes, "class", "classes") + " forgotten"), cell(""), cell(""), cell(""));
  const parts = [];
  if (one.classes?.length) parts.push(`new: ${one.classes.join(", ")}`);
  if (one.known_classes?.length) parts.push(`more of ${one.known_classes.join(", ")}`);
  const accuracy = typeof one.accuracy === "number" ? percent(one.accuracy) : "–";
  const images = typeof one.images === "number" ? number(one.images) : "–";
  return element("tr", {}, day, cell(parts.join("; "), "wrap"), cell(images, "number"),
    cell(accuracy, "number"), cell(bytes(one.memory_bytes ?? 0), "number"));
}

async function undo() {
  if (!await confirmed("Undo the last update?", UNDO, "Undo it", "Keep it")) return;
  await withErrors("updates-error", async () => {
    const { message } = await call("POST", "/api/undo");
    clearResult();
    await refresh();
    $("updates-status").textContent = message;
    $("updates").focus();
  });
}

afterRefresh(showStore);
for (const id of ["undo", "result-undo"]) $(id).addEventListener("click", undo);
// An image dropped outside the drop areas must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
