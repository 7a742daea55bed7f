// Images that are chosen, dropped or found in folders. A picked image is { file, folder }: folder is the
// name of the folder that it lies in, or null for a file on its own.

import { bytes, element, number, plural } from "./parts.js";
import { state } from "./store.js";

const ENDINGS = [".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"];
const MAX_NAMED = 5;  // files that are left out; of more, only the number is told
const isHidden = (name) => name.startsWith(".");
const isImage = (name) => !isHidden(name) && ENDINGS.some((ending) => name.toLowerCase().endsWith(ending));

const path = (one) => `${one.folder ?? ""}/${one.file.name}`;
const inOrder = (one, other) => (path(one) < path(other) ? -1 : 1);

export function checkFiles(files) {
  if (state.store === null) throw new Error("The server does not answer; reload the page.");
  const limits = state.store.limits;
  for (const file of files) {
    if (file.size > limits.image_bytes) {
      throw new Error(`${file.name} has ${bytes(file.size)}; at most ${bytes(limits.image_bytes)} are accepted.`);
    }
  }
  if (files.length > limits.images) {
    throw new Error(`At most ${limits.images} images are accepted at once; got ${number(files.length)}.`);
  }
  const total = files.reduce((sum, file) => sum + file.size, 0);
  if (total > limits.request_bytes) {
    throw new Error(`At most ${bytes(limits.request_bytes)} are accepted at once; got ${bytes(total)}.`);
  }
}

export function thumbnail(file, alt = file.name) {
  const picture = element("img", { alt, src: URL.createObjectURL(file) });
  for (const end of ["load", "error"]) {
    picture.addEventListener(end, () => URL.revokeObjectURL(picture.src), { once: true });
  }
  return picture;
}

// A label with a file input inside: the input takes clicks and keys, the label what is dropped.
export function acceptDrops(label, input, take) {
  const takeChosen = () => {
    take([...input.files].map((file) => ({ file, folder: null })), []);
    input.value = "";  // so that the same file can be chosen again
  };
  input.addEventListener("change", takeChosen);
  if (input.files.length) takeChosen();  // they were chosen before this script was there
  label.addEventListener("dragover", (event) => { event.preventDefault(); label.classList.add("over"); });
  label.addEventListener("dragleave", () => label.classList.remove("over"));
  label.addEventListener("drop", async (event) => {
    event.preventDefault();
    label.classList.remove("over");
    const { picked, left } = await readDrop(event.dataTransfer);
    take(picked, left);
  });
}

// An input that chooses a folder; where a browser has none, its label is hidden.
export function acceptFolder(label, input, take) {
  label.hidden = !("webkitdirectory" in input);
  input.addEventListener("change", () => {
    const all = [...input.files].map((file) => ({ file, folder: file.webkitRelativePath.split("/").at(-2) ?? null }));
    const picked = all.filter((one) => isImage(one.file.name)).sort(inOrder);
    const left = all.map((one) => one.file.name).filter((name) => !isImage(name) && !isHidden(name));
    input.value = "";
    take(picked, left);
  });
}

async function readDrop(data) {
  // Entries must be asked for before the first wait: the browser forgets them after the event.
  const entries = [...data.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) {
    return { picked: [...data.files].map((file) => ({ file, folder: null })), left: [] };
  }
  const picked = [];
  const left = [];
  const walk = async (entry, folder) => {
    if (entry.isDirectory) {
      for (const inner of await entriesOf(entry)) await walk(inner, entry.name);
    } else if (isImage(entry.name)) {
      picked.push({ file: await new Promise((done, fail) => entry.file(done, fail)), folder });
    } else if (!isHidden(entry.name)) {
      left.push(entry.name);
    }
  };
  for (const entry of entries) if (entry) await walk(entry, null);
  return { picked, left };
}

// A folder is read in parts, until a part is empty.
async function entriesOf(folder) {
  const reader = folder.createReader();
  const found = [];
  for (;;) {
    const part = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!part.length) return found.sort((one, other) => (one.name < other.name ? -1 : 1));
    found.push(...part);
  }
}

// A sentence about files that are no images by their names.
export function leftOut(names) {
  if (!names.length) return "";
  const more = names.length > MAX_NAMED ? ` and ${number(names.length - MAX_NAMED)} more` : "";
  return `${plural(names.length, "file")} left out (names must end in ${ENDINGS.join(", ")}): ${names.slice(0, MAX_NAMED).join(", ")}${more}.`;
}
