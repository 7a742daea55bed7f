// What it remembers: classes and their exemplars.

import { $, bytes, call, confirmed, element, number, plural, withErrors } from "./parts.js";
import { afterRefresh, refresh, state } from "./store.js";

const PAGE = 24;  // exemplars shown at once
const CANNOT = "Its exemplars, its row of the classifier and its name are removed from the store. This cannot be undone.";
let shown = null;  // { name, count } of the class that is shown

const address = (name) => `/api/classes/${encodeURIComponent(name)}`;

function showClasses() {
  const focused = document.activeElement?.closest("#class-list button")?.firstChild.textContent;
  $("class-list").replaceChildren(...state.classes.map((one) => {
    const facts = `${plural(one.exemplars, "exemplar")}, ${bytes(one.bytes)}`;
    const button = element("button", { type: "button" }, element("span", { textContent: one.name }),
      element("span", { className: "small", textContent: facts }));
    button.setAttribute("aria-pressed", String(shown?.name === one.name));
    button.addEventListener("click", () => show(one.name, true));
    return element("li", {}, button);
  }));
  const again = [...$("class-list").querySelectorAll("button")].find((one) => one.firstChild.textContent === focused);
  again?.focus();  // the list is made anew, and the keyboard must not lose its place
  $("known-classes").replaceChildren(...state.classes.map((one) => element("option", { value: one.name })));
}

async function show(name, isAsked = false) {
  shown = { name, count: 0 };
  showClasses();
  $("class-memory").hidden = false;
  $("class-title").textContent = name;
  $("pairs").replaceChildren();
  $("memory-status").textContent = "";
  await showMore();
  if (isAsked) $("class-title").focus();
}

async function showMore() {
  const { name, count } = shown;
  await withErrors("class-error", async () => {
    const page = await call("GET", `${address(name)}/exemplars?first=${count}&count=${PAGE}`);
    if (shown?.name !== name) return;  // another class was chosen meanwhile
    shown.count = count + page.exemplars.length;
    $("pairs").append(...page.exemplars.map(pair));
    $("class-note").textContent = page.total
      ? `${number(shown.count)} of ${plural(page.total, "exemplar")}, best first${page.exemplars.some((one) => one.completed) ? "; left: stored pixels, right: completed by the network" : ""}.`
      : "There are no exemplars of this class.";
    $("more").hidden = shown.count >= page.total;
  });
}

function pair(one) {
  const label = `exemplar ${one.rank + 1} of ${shown.name}`;
  const stored = element("img", { className: "stored", src: one.stored, alt: `Stored pixels of ${label}`, loading: "lazy" });
  const pictures = [stored];
  if (one.completed) pictures.push(element("img", { src: one.completed, alt: `Completion of ${label}`, loading: "lazy" }));
  return element("li", {}, element("div", { className: one.completed ? "two" : "one" }, ...pictures),
    element("p", { textContent: `${one.rank + 1}: ${bytes(one.bytes)}` }));
}

async function forget() {
  const { name } = shown;
  if (!await confirmed(`Forget ${name}?`, CANNOT, "Forget it", "Keep it")) return;
  await withErrors("class-error", async () => {
    const { message } = await call("DELETE", address(name));
    await refresh();
    $("memory-status").textContent = message;
  });
}

afterRefresh(() => {
  const store = state.store;
  $("memory-note").textContent = store.budget_bytes === null
    ? `${store.method} keeps no exemplars.`
    : `${plural(store.num_exemplars, "exemplar")} in ${bytes(store.memory_bytes)} of a budget of ${bytes(store.budget_bytes)}. Choose a class.`;
  if (shown && !state.classes.some((one) => one.name === shown.name)) {
    shown = null;
    $("class-memory").hidden = true;
  }
  showClasses();
  if (shown) show(shown.name);
});
$("more").addEventListener("click", showMore);
$("class-forget").addEventListener("click", forget);
