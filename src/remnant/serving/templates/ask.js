// Ask: what are these images?

import { takePictures } from "./camera.js";
import { acceptDrops, checkFiles, thumbnail } from "./files.js";
import { $, call, element, percent, withErrors } from "./parts.js";
import { loaded } from "./store.js";

async function ask(files) {
  $("ask-answers").replaceChildren();
  $("ask-status").textContent = "";
  await withErrors("ask-error", async () => {
    await loaded;
    checkFiles(files);
    const errors = new Set();  // one image that cannot be read does not stop the others
    for (const file of files) await askOne(file).catch((error) => errors.add(error.message));
    if (errors.size) throw new Error([...errors].join(" "));
  });
}

async function askOne(file) {
  const form = new FormData();
  form.append("image", file);
  const body = element("div", {}, element("p", { className: "file", textContent: file.name }));
  const card = element("article", { className: "answer" }, thumbnail(file), body);
  $("ask-answers").append(card);
  try {
    const { guesses, is_known: isKnown } = await call("POST", "/api/predict?top=5", form);
    const isStrange = isKnown === false;
    if (isStrange) {
      body.append(element("p", { className: "strange", textContent: "None of these: it is unlike anything taught." }));
    }
    body.append(element("ol", { className: isStrange ? "bars doubtful" : "bars" }, ...guesses.map(bar)));
    const answer = isStrange ? "none of these" : `${guesses[0].name}, ${percent(100 * guesses[0].probability)}`;
    $("ask-status").textContent = `${file.name}: ${answer}`;
  } catch (error) {
    card.remove();
    throw error;
  }
}

function bar(guess) {
  const fill = element("span", { className: "bar" });
  fill.style.width = `${100 * guess.probability}%`;
  return element("li", {}, fill, element("span", { textContent: guess.name }),
    element("span", { className: "share", textContent: percent(100 * guess.probability) }));
}

acceptDrops($("ask-drop"), $("ask-files"), (picked) => ask(picked.map((one) => one.file)));
$("ask-camera").addEventListener("click", () => takePictures("Ask about a picture", (file) => {
  $("camera").close();  // so that the answer is seen
  ask([file]);
}));
document.addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (files.length) ask(files);
});
