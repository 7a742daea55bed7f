"use strict";

const PAGE = 24;  // exemplars shown at once
const POLL = 500;  // milliseconds between two requests for the status of a job
const $ = (id) => document.getElementById(id);
const state = { store: null, classes: [], chosen: [], shown: null, watched: null };

// ---------------------------------------------------------------------------------------------- requests

async function call(method, path, body) {
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

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const address = (name) => `/api/classes/${encodeURIComponent(name)}`;

function bytes(count) {
  if (count < 1024) return `${count}\u00a0B`;
  const [value, unit] = count < 1 << 20 ? [count / 1024, "KiB"] : [count / (1 << 20), "MiB"];
  return `${value.toFixed(1)}\u00a0${unit}`;
}

const number = (count) => count.toLocaleString("en");
const plural = (count, word, many = `${word}s`) => `${number(count)} ${count === 1 ? word : many}`;

function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

// Runs an action and shows its error, if any, in the element `id`.
async function withErrors(id, action) {
  $(id).textContent = "";
  try {
    return await action();
  } catch (error) {
    $(id).textContent = error.message;
    return undefined;
  }
}

// ------------------------------------------------------------------------------------------------ files

function checkFiles(files) {
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

function thumbnail(file) {
  const picture = element("img", { alt: file.name, src: URL.createObjectURL(file) });
  for (const end of ["load", "error"]) {
    picture.addEventListener(end, () => URL.revokeObjectURL(picture.src), { once: true });
  }
  return picture;
}

// A label with a file input inside: the input takes clicks and keys, the label what is dropped.
function acceptDrops(label, input, take) {
  input.addEventListener("change", () => {
    take([...input.files]);
    input.value = "";  // so that the same file can be chosen again
  });
  label.addEventListener("dragover", (event) => { event.preventDefault(); label.classList.add("over"); });
  label.addEventListener("dragleave", () => label.classList.remove("over"));
  label.addEventListener("drop", (event) => {
    event.preventDefault();
    label.classList.remove("over");
    take([...event.dataTransfer.files]);
  });
}

// -------------------------------------------------------------------------------------------------- ask

async function ask(files) {
  $("ask-answers").replaceChildren();
  $("ask-status").textContent = "";
  await withErrors("ask-error", async () => {
    await loaded;
    checkFiles(files);
    for (const file of files) await askOne(file);
  });
}

async function askOne(file) {
  const form = new FormData();
  form.append("image", file);
  const body = element("div", {}, element("p", { className: "file", textContent: file.name }));
  const card = element("article", { className: "answer" }, thumbnail(file), body);
  $("ask-answers").append(card);
  try {
    const { guesses } = await call("POST", "/api/predict?top=5", form);
    body.append(element("ol", { className: "bars" }, ...guesses.map(bar)));
    $("ask-status").textContent = `${file.name}: ${guesses[0].name}, ${percent(guesses[0])}`;
  } catch (error) {
    card.remove();
    throw error;
  }
}

const percent = (guess) => `${(100 * guess.probability).toFixed(1)} %`;

function bar(guess) {
  const fill = element("span", { className: "bar" });
  fill.style.width = `${100 * guess.probability}%`;
  return element("li", {}, fill, element("span", { textContent: guess.name }),
    element("span", { className: "share", textContent: percent(guess) }));
}

// ------------------------------------------------------------------------------------------------ teach

function choose(files) {
  withErrors("teach-error", async () => {
    await loaded;
    checkFiles([...state.chosen, ...files]);
    state.chosen.push(...files);
    showChosen();
  });
}

function showChosen() {
  const count = state.chosen.length;
  $("teach-chosen").replaceChildren(...state.chosen.map((file) => element("li", {}, thumbnail(file))));
  $("teach-clear").hidden = count === 0;
  $("teach-button").textContent = count ? `Teach with ${plural(count, "image")}` : "Teach";
}

async function teach(event) {
  event.preventDefault();
  $("teach-status").textContent = "";
  const button = $("teach-button");
  await withErrors("teach-error", async () => {
    const name = $("teach-name").value.trim();
    if (!name) { $("teach-name").focus(); throw new Error("Enter the name of the class first."); }
    if (!state.chosen.length) { $("teach-files").focus(); throw new Error("Choose at least one image."); }
    const form = new FormData();
    form.append("name", name);
    for (const file of state.chosen) form.append("images", file);
    button.disabled = true;
    button.textContent = "Sending and checking …";
    const job = await call("POST", "/api/teach", form);
    state.chosen = [];
    $("teach-name").value = "";
    watch(job);
  });
  if (state.watched === null) button.disabled = false;
  showChosen();
}

function watch(job) {
  state.watched = job.id;
  $("job").hidden = false;
  $("teach-button").disabled = $("class-forget").disabled = true;
  $("job-cancel").disabled = false;
  showJob(job);
  setTimeout(poll, POLL);
}

async function poll() {
  let job;
  try {
    job = await call("GET", `/api/jobs/${state.watched}`);
  } catch (error) {
    $("teach-error").textContent = error.message;
    setTimeout(poll, 4 * POLL);
    return;
  }
  $("teach-error").textContent = "";
  if (job.state === "running") {
    showJob(job);
    setTimeout(poll, POLL);
  } else {
    await endJob(job);
  }
}

function showJob(job) {
  const left = job.seconds_left === null ? "" : `, ${duration(job.seconds_left)} left`;
  $("job-name").textContent = job.name;
  $("job-doing").textContent = `${plural(job.images, "image")}, ${job.doing}${left}`;
  $("job-bar").value = job.share_done;
}

function duration(seconds) {
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

async function endJob(job) {
  state.watched = null;
  $("job").hidden = true;
  $("teach-button").disabled = $("class-forget").disabled = false;
  await refresh();  // nothing is reported before the page shows it
  if (job.state === "failed") $("teach-error").textContent = sentence(job.error);
  if (job.state === "cancelled") $("teach-status").textContent = `Cancelled: ${job.name} was not learned, and the store is unchanged.`;
  if (job.state === "done") $("teach-status").textContent = `${job.name} has been learned.`;
  if (job.state === "done" && state.shown) await show(state.shown.name);
}

async function cancel() {
  $("job-cancel").disabled = true;
  await withErrors("teach-error", () => call("POST", `/api/jobs/${state.watched}/cancel`));
}

// ----------------------------------------------------------------------------------------------- memory

function showClasses() {
  $("class-list").replaceChildren(...state.classes.map((one) => {
    const facts = `${plural(one.exemplars, "exemplar")}, ${bytes(one.bytes)}`;
    const button = element("button", { type: "button" }, element("span", { textContent: one.name }),
      element("span", { className: "small", textContent: facts }));
    button.setAttribute("aria-pressed", String(state.shown?.name === one.name));
    button.addEventListener("click", () => show(one.name, true));
    return element("li", {}, button);
  }));
  $("known-classes").replaceChildren(...state.classes.map((one) => element("option", { value: one.name })));
}

async function show(name, isAsked = false) {
  state.shown = { name, count: 0 };
  showClasses();
  $("class-memory").hidden = false;
  $("class-title").textContent = name;
  $("pairs").replaceChildren();
  $("memory-status").textContent = "";
  await showMore();
  if (isAsked) $("class-title").focus();
}

async function showMore() {
  const { name, count } = state.shown;
  await withErrors("class-error", async () => {
    const page = await call("GET", `${address(name)}/exemplars?first=${count}&count=${PAGE}`);
    if (state.shown.name !== name) return;  // another class was chosen meanwhile
    state.shown.count = count + page.exemplars.length;
    $("pairs").append(...page.exemplars.map(pair));
    $("class-note").textContent = page.total
      ? `${number(state.shown.count)} of ${plural(page.total, "exemplar")}, best first${page.exemplars.some((one) => one.completed) ? "; left: stored pixels, right: completed by the network" : ""}.`
      : "There are no exemplars of this class.";
    $("more").hidden = state.shown.count >= page.total;
  });
}

function pair(one) {
  const label = `exemplar ${one.rank + 1} of ${state.shown.name}`;
  const stored = element("img", { className: "stored", src: one.stored, alt: `Stored pixels of ${label}`, loading: "lazy" });
  const pictures = [stored];
  if (one.completed) pictures.push(element("img", { src: one.completed, alt: `Completion of ${label}`, loading: "lazy" }));
  return element("li", {}, element("div", { className: one.completed ? "two" : "one" }, ...pictures),
    element("p", { textContent: `${one.rank + 1}: ${bytes(one.bytes)}` }));
}

async function forget() {
  const { name } = state.shown;
  $("confirm-title").textContent = `Forget ${name}?`;
  $("confirm").returnValue = "no";
  $("confirm").showModal();
  await new Promise((done) => $("confirm").addEventListener("close", done, { once: true }));
  if ($("confirm").returnValue !== "yes") return;
  await withErrors("class-error", async () => {
    const { message } = await call("DELETE", address(name));
    state.shown = null;
    $("class-memory").hidden = true;
    await refresh();
    $("memory-status").textContent = message;
  });
}

// ------------------------------------------------------------------------------------- the store as a whole

async function refresh() {
  try {
    [state.store, state.classes] = await Promise.all([call("GET", "/api/store"), call("GET", "/api/classes")]);
  } catch (error) {
    $("failure").textContent = error.message;
    $("failure").hidden = false;
    return;
  }
  $("failure").hidden = true;
  const store = state.store;
  $("summary").textContent = `${plural(store.num_classes, "class", "classes")}, method ${store.method}, images of ${store.image_size} px, ${bytes(store.file_bytes)} on disk.`;
  $("memory-note").textContent = store.budget_bytes === null
    ? `${store.method} keeps no exemplars.`
    : `${plural(store.num_exemplars, "exemplar")} in ${bytes(store.memory_bytes)} of a budget of ${bytes(store.budget_bytes)}. Choose a class.`;
  showClasses();
  $("history").replaceChildren(...store.history.toReversed().map(historyRow));
  if (store.job !== null && state.watched === null) watch(await call("GET", `/api/jobs/${store.job}`));
}

function historyRow(one) {
  const cell = (text, className = "") => element("td", { textContent: text, className });
  const day = element("th", { textContent: one.when ?? "", className: "plain", scope: "row" });
  if (one.forgotten_classes) return element("tr", {}, day, cell(plural(one.forgotten_classes, "class", "classes") + " forgotten"), cell(""), cell(""), cell(""));
  const parts = [];
  if (one.classes?.length) parts.push(`new: ${one.classes.join(", ")}`);
  if (one.known_classes?.length) parts.push(`more of ${one.known_classes.join(", ")}`);
  const accuracy = typeof one.accuracy === "number" ? `${one.accuracy.toFixed(1)} %` : "–";
  const images = typeof one.images === "number" ? number(one.images) : "–";
  return element("tr", {}, day, cell(parts.join("; "), "wrap"), cell(images, "number"),
    cell(accuracy, "number"), cell(bytes(one.memory_bytes ?? 0), "number"));
}

acceptDrops($("ask-drop"), $("ask-files"), ask);
acceptDrops($("teach-drop"), $("teach-files"), choose);
document.addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (files.length) ask(files);
});
// An image dropped outside the drop areas must not replace the page.
for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
$("teach-form").addEventListener("submit", teach);
$("teach-clear").addEventListener("click", () => { state.chosen = []; showChosen(); });
$("job-cancel").addEventListener("click", cancel);
$("more").addEventListener("click", showMore);
$("class-forget").addEventListener("click", forget);
const loaded = refresh();
