// The images to teach, in groups of one class each.

import { takePictures } from "./camera.js";
import { acceptDrops, checkFiles, leftOut, thumbnail } from "./files.js";
import { $, element, plural, withErrors } from "./parts.js";
import { loaded } from "./store.js";

const ACCEPT = "image/jpeg,image/png,image/webp,image/bmp,image/gif";
const MAX_SHOWN = 60;  // thumbnails of a group
let groups = [];
let made = 0;  // groups in all, for ids
let changed = () => undefined;

export const onChange = (listener) => { changed = listener; };
export const numImages = () => groups.reduce((sum, group) => sum + group.files.length, 0);

export function clearGroups() {
  groups = [];
  $("groups").replaceChildren();
  addGroup();
}

export function addGroup(name = "") {
  made += 1;
  const input = element("input", { type: "text", id: `name-${made}`, autocomplete: "off", spellcheck: false, maxLength: 100, value: name });
  input.setAttribute("list", "known-classes");
  const files = element("input", { type: "file", id: `files-${made}`, accept: ACCEPT, multiple: true });
  const drop = element("label", { className: "drop" }, files,
    element("span", { className: "drop-title with-mouse", textContent: "Drop images of this class here, or choose files" }),
    element("span", { className: "drop-title with-touch", textContent: "Choose or take photos of this class" }),
    element("span", { className: "small with-mouse", textContent: "Dropped folders become classes of their names." }));
  const legend = element("legend");
  const chosen = element("ul", { className: "chosen" });
  const camera = element("button", { type: "button", textContent: "Use the camera" });
  const remove = element("button", { type: "button", textContent: "Remove" });
  const box = element("fieldset", { className: "group" }, legend,
    element("label", { htmlFor: input.id, textContent: "Name of the class, new or known" }), input, drop, chosen,
    element("div", { className: "actions" }, camera, remove));
  const group = { input, chosen, legend, remove, box, files: [], numShown: 0, get name() { return input.value.trim(); } };
  acceptDrops(drop, files, (picked, left) => choose(picked, left, group));
  camera.addEventListener("click", () => takePictures(group.name ? `Pictures of ${group.name}` : "Pictures of this class",
    (file) => choose([{ file, folder: null }], [], group)));
  remove.addEventListener("click", () => removeGroup(group));
  groups.push(group);
  $("groups").append(box);
  showGroups();
  return group;
}

function removeGroup(group) {
  const index = groups.indexOf(group);
  groups = groups.filter((one) => one !== group);
  group.box.remove();
  if (!groups.length) addGroup();
  showGroups();
  groups[Math.max(0, index - 1)].input.focus();
}

// Files on their own go to `target`; those of folders to groups of the folders' names.
export function choose(picked, left, target = null) {
  return withErrors("teach-error", async () => {
    await loaded;
    $("teach-status").textContent = leftOut(left);
    if (!picked.length) throw new Error("There are no images in this folder.");
    checkFiles([...groups.flatMap((group) => group.files), ...picked.map((one) => one.file)]);
    for (const { file, folder } of picked) groupFor(folder, target).files.push(file);
    showGroups();
  });
}

function groupFor(folder, target) {
  if (folder === null) return target ?? groups.at(-1);
  const name = folder.trim();
  const empty = groups.find((group) => !group.name && !group.files.length);
  const found = groups.find((group) => group.name === name) ?? empty ?? addGroup(name);
  found.input.value = name;
  return found;
}

function showGroups() {
  groups.forEach((group, index) => {
    group.legend.textContent = groups.length === 1 ? "One class" : `Class ${index + 1} of ${groups.length}`;
    group.remove.hidden = groups.length === 1;
    if (group.numShown === group.files.length) return;
    group.numShown = group.files.length;
    const shown = group.files.slice(0, MAX_SHOWN).map((file) => element("li", {}, thumbnail(file)));
    const more = group.files.length - MAX_SHOWN;
    if (more > 0) shown.push(element("li", { className: "small", textContent: `and ${plural(more, "more", "more")}` }));
    group.chosen.replaceChildren(...shown);
    group.chosen.setAttribute("aria-label", `${plural(group.files.length, "image")} to teach`);
  });
  changed();
}

// The form of a teach request.
export function teachForm() {
  const filled = groups.filter((group) => group.name || group.files.length);
  const unnamed = filled.find((group) => !group.name) ?? (filled.length ? null : groups[0]);
  if (unnamed) { unnamed.input.focus(); throw new Error("Enter the name of the class first."); }
  const empty = filled.find((group) => !group.files.length);
  if (empty) {
    empty.box.querySelector("input[type=file]").focus();
    throw new Error(filled.length > 1 ? `Choose at least one image of ${empty.name}.` : "Choose at least one image.");
  }
  const form = new FormData();
  for (const group of filled) {
    for (const file of group.files) {
      form.append("name", group.name);
      form.append("images", file);
    }
  }
  return form;
}

clearGroups();
