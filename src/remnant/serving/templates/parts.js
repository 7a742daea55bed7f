// What every section of the page uses: elements, requests, words for numbers.

export const $ = (id) => document.getElementById(id);

export function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

export async function call(method, path, body) {
  let response;
  try {
    response = await fetch(path, { method, body });
  } catch {
    throw new Error("The server does not respond. Is it still running?");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(sentence(content.error || `The server failed (${response.status}).`));
  return content;
}

// Runs an action and shows its error, if any, in the element `id`.
export async function withErrors(id, action) {
  $(id).textContent = "";
  try {
    return await action();
  } catch (error) {
    $(id).textContent = error.message;
    return undefined;
  }
}

// Asks before something that cannot be taken back; whether the answer is yes.
export async function confirmed(title, text, yes, no) {
  $("confirm-title").textContent = title;
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = yes;
  $("confirm-no").textContent = no;
  $("confirm").returnValue = "no";
  $("confirm").showModal();
  await new Promise((done) => $("confirm").addEventListener("close", done, { once: true }));
  return $("confirm").returnValue === "yes";
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const number = (count) => count.toLocaleString("en");
export const plural = (count, word, many = `${word}s`) => `${number(count)} ${count === 1 ? word : many}`;
export const percent = (share) => `${share.toFixed(1)}\u00a0%`;

export function bytes(count) {
  if (count < 1024) return `${count}\u00a0B`;
  const [value, unit] = count < 1 << 20 ? [count / 1024, "KiB"] : [count / (1 << 20), "MiB"];
  return `${value.toFixed(1)}\u00a0${unit}`;
}

export function duration(seconds) {
  if (seconds < 1) return "a second";
  return seconds < 90 ? `${Math.round(seconds)}\u00a0s` : `${Math.round(seconds / 60)}\u00a0min`;
}

// Sentences about images, in the list `id`.
export function showNotes(id, notes) {
  if ($(id).childElementCount !== notes.length) {
    $(id).replaceChildren(...notes.map((note) => element("li", { textContent: sentence(note) })));
  }
  $(id).hidden = !notes.length;
}

export function table(heads, rows) {
  const cell = (tag, text, index) => element(tag, { textContent: text, className: index ? "number" : "wrap" });
  const head = element("tr", {}, ...heads.map((text, index) => Object.assign(cell("th", text, index), { scope: "col" })));
  const body = rows.map((row) => element("tr", {}, ...row.map((text, index) =>
    (index ? cell("td", text, index) : Object.assign(cell("th", text, index), { scope: "row" })))));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
}
