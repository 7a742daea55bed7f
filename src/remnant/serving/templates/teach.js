// Teach: what will be used, the job, and what it did.

import { acceptFolder } from "./files.js";
import { addGroup, choose, clearGroups, numImages, onChange, teachForm } from "./groups.js";
import { $, call, duration, percent, plural, sentence, showNotes, table, withErrors } from "./parts.js";
import { afterRefresh, loaded, refresh, state } from "./store.js";

const POLL = 500;  // milliseconds between two requests for the status of a job
const MEASURED_ON = {
  "test": "of a test set",
  "held-out": "that were held out",
  "held-out and exemplars": "that were held out; old classes are measured on their exemplars",
};
let watched = null;  // id of the job that is shown
let planned = 0;  // requests for a plan so far

// ------------------------------------------------------------------------------------- before teaching

async function showPlan() {
  const count = numImages();
  planned += 1;
  const mine = planned;
  $("teach-clear").hidden = count === 0;
  if (watched === null) $("teach-button").textContent = count ? `Teach with ${plural(count, "image")}` : "Teach";
  await loaded;
  if (state.store === null) return;
  let plan;
  try {
    plan = await call("GET", `/api/plan?images=${Math.max(1, count)}`);
  } catch {
    return;  // what is wrong is told when something is asked for
  }
  if (mine !== planned) return;  // something else was chosen meanwhile
  const network = plan.encoder === null ? "a network trained from scratch" : `the frozen encoder ${plan.encoder} (licence ${plan.licence})`;
  $("teach-plan").textContent = `Method ${plan.method} with ${network}; images of ${plan.image_size} px.`;
  $("teach-estimate").textContent = count ? estimate(plan, count) : "";
}

function estimate(plan, count) {
  if (plan.seconds === null) return `How long ${plural(count, "image")} will take is not known: ${plan.basis}.`;
  return `${plural(count, "image")} will take about ${duration(plan.seconds)}: ${plan.basis}.`;
}

// ------------------------------------------------------------------------------------------- the job

async function teach(event) {
  event.preventDefault();
  clearResult();
  const button = $("teach-button");
  await withErrors("teach-error", async () => {
    const form = teachForm();
    if ($("guard-on").checked) form.append("guard", guardPoints());
    button.disabled = true;
    button.textContent = "Sending and checking …";
    const job = await call("POST", "/api/teach", form);
    clearGroups();
    watch(job);
    $("job-cancel").focus();
  });
  if (watched === null) button.disabled = false;
  showPlan();
}

function guardPoints() {
  const field = $("guard-points");
  if (field.value === "" || !field.validity.valid) {
    field.focus();
    throw new Error("The points that an old class may lose must be a number from 0 to 100.");
  }
  return field.value;
}

function watch(job) {
  watched = job.id;
  $("job").hidden = false;
  $("teach-button").disabled = $("class-forget").disabled = true;
  $("job-cancel").disabled = false;
  showUndo();
  showJob(job);
  setTimeout(poll, POLL);
}

async function poll() {
  let job;
  try {
    job = await call("GET", `/api/jobs/${watched}`);
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
  showNotes("teach-notes", job.notes);
}

async function endJob(job) {
  const hadFocus = $("job").contains(document.activeElement);
  watched = null;
  $("teach-button").disabled = $("class-forget").disabled = false;
  await refresh();  // nothing is reported before the page shows it
  $("job").hidden = true;
  if (hadFocus) $("teach-button").focus();
  showNotes("teach-notes", job.notes);
  const have = job.classes.length === 1 ? "has" : "have";
  if (job.state === "failed" || job.state === "refused") $("teach-error").textContent = sentence(job.error);
  if (job.state === "cancelled") $("teach-status").textContent = `Cancelled: ${job.name} ${have} not been learned, and the store is unchanged.`;
  if (job.state !== "done") return;
  $("teach-status").textContent = `${job.name} ${have} been learned. ${measured(job.update)}`;
  showLosses(job.update);
}

async function cancel() {
  $("job-cancel").disabled = true;
  await withErrors("teach-error", () => call("POST", `/api/jobs/${watched}/cancel`));
}

// ------------------------------------------------------------------------------------- after teaching

function measured(update) {
  const where = `${plural(update.measured_images ?? 0, "image")} ${MEASURED_ON[update.measured_on] ?? ""}`;
  if (typeof update.accuracy === "number") return `${percent(update.accuracy)} correct, of ${where}.`;
  return update.class_accuracy_before?.length ? "There were too few new images to measure them." : "There were too few images to measure its accuracy.";
}

function showLosses(update) {
  const after = new Map(update.class_accuracy ?? []);
  const old = (update.class_accuracy_before ?? []).filter(([name]) => after.has(name));
  const rows = old.map(([name, before]) => [String(name), before, after.get(name)])
    .filter(([, before, now]) => before !== now)
    .sort((one, other) => (one[2] - one[1]) - (other[2] - other[1]));
  const lost = rows.filter(([, before, now]) => now < before).length;
  const summary = lost ? `${lost} of ${plural(old.length, "old class", "old classes")} lost accuracy.` : "No old class lost accuracy.";
  const points = (change) => `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(1)}`;
  const shown = rows.map(([name, before, now]) => [name, percent(before), percent(now), points(now - before)]);
  $("teach-result").hidden = false;
  $("result-summary").textContent = old.length ? summary : "";
  $("result-table").replaceChildren(...(shown.length ? [table(["Old class", "Before", "Now", "Points"], shown)] : []));
  $("result-table").hidden = !shown.length;
  showUndo();
}

function showUndo() {
  const isPossible = Boolean(state.store?.can_undo) && watched === null;
  $("undo").hidden = !isPossible;
  $("result-undo").hidden = !isPossible;
}

export function clearResult() {
  $("teach-result").hidden = true;
  $("teach-status").textContent = "";
  showNotes("teach-notes", []);
}

onChange(showPlan);
afterRefresh(async () => {
  showUndo();
  showPlan();
  if (state.store.job !== null && watched === null) watch(await call("GET", `/api/jobs/${state.store.job}`));
});
acceptFolder($("teach-folder-label"), $("teach-folder"), (picked, left) => choose(picked, left));
$("teach-form").addEventListener("submit", teach);
$("teach-clear").addEventListener("click", () => { clearGroups(); $("groups").querySelector("input").focus(); });
$("add-group").addEventListener("click", () => addGroup().input.focus());
$("job-cancel").addEventListener("click", cancel);
