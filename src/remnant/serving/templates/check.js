// Check: how many images of known classes are right, and which are not.

import { acceptDrops, acceptFolder, checkFiles, leftOut, thumbnail } from "./files.js";
import { $, call, element, number, percent, plural, showNotes, table, withErrors } from "./parts.js";
import { afterRefresh, loaded, state } from "./store.js";

const PAGE = 24;  // mistakes shown at once
let mistakes = [];  // { file, ... } of the last check, most confident first
let shown = 0;

async function check(picked, left) {
  $("check-result").hidden = true;
  $("check-status").textContent = "";
  showNotes("check-notes", []);
  await withErrors("check-error", async () => {
    await loaded;
    if (!picked.length) throw new Error("There are no images in this folder.");
    checkFiles(picked.map((one) => one.file));
    const chosen = $("check-class").value;
    if (!chosen && picked.some((one) => one.folder === null)) {
      $("check-class").focus();
      throw new Error("Choose the class of these images, or drop a folder of class folders.");
    }
    const form = new FormData();
    for (const { file, folder } of picked) {
      form.append("name", folder === null ? chosen : folder.trim());
      form.append("images", file);
    }
    $("check-status").textContent = `Checking ${plural(picked.length, "image")} …`;
    try {
      show(await call("POST", "/api/score", form), picked, left);
    } catch (error) {
      $("check-status").textContent = "";
      throw error;
    }
  });
}

function show(score, picked, left) {
  $("check-status").textContent = `${percent(score.accuracy)} of ${plural(score.images, "image")} correct. ${leftOut(left)}`;
  showNotes("check-notes", score.notes);
  const rows = score.classes.map((one) => [one.name, number(one.images), percent(one.accuracy), one.mistaken_for]);
  $("check-table").replaceChildren(table(["Class", "Images", "Correct", "Most often taken for"], rows));
  mistakes = score.mistakes.map((one) => ({ ...one, picture: picked[one.index].file }));
  $("check-mistakes").replaceChildren();
  shown = 0;
  $("check-mistakes-title").textContent = mistakes.length ? "Most confident mistakes" : "No mistakes";
  $("check-result").hidden = false;
  showMore();
}

function showMore() {
  for (const one of mistakes.slice(shown, shown + PAGE)) {
    $("check-mistakes").append(element("li", {}, thumbnail(one.picture, `${one.picture.name}: ${one.name}`),
      element("p", { textContent: `${one.name}, predicted as ${one.predicted} (${percent(100 * one.probability)})` }),
      element("p", { className: "file", textContent: one.picture.name })));
  }
  shown = Math.min(shown + PAGE, mistakes.length);
  $("check-more").hidden = shown >= mistakes.length;
}

afterRefresh(() => {
  const select = $("check-class");
  const before = select.value;
  select.replaceChildren(element("option", { value: "", textContent: "the name of its folder" }),
    ...state.classes.map((one) => element("option", { value: one.name, textContent: one.name })));
  select.value = state.classes.some((one) => one.name === before) ? before : "";
});
acceptDrops($("check-drop"), $("check-files"), check);
acceptFolder($("check-folder-label"), $("check-folder"), check);
$("check-more").addEventListener("click", showMore);
