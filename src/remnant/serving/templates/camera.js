// Pictures from a camera, in a dialog that asking and teaching share.

import { $, plural } from "./parts.js";

const REFUSED = {
  NotAllowedError: "The browser was not allowed to use the camera.",
  NotFoundError: "There is no camera.",
  NotReadableError: "The camera is in use by another program.",
};
const NEEDS_HTTPS = "Browsers give the camera only to pages on localhost or behind https; this page came from elsewhere.";

// Opens the dialog and gives each picture to `take`; ends when the dialog is closed.
export async function takePictures(title, take) {
  $("camera-title").textContent = title;
  $("camera-error").textContent = $("camera-status").textContent = "";
  $("camera-take").disabled = true;
  $("camera").showModal();
  const closed = new Promise((done) => $("camera").addEventListener("close", done, { once: true }));
  const stream = await openCamera();
  if (stream && !$("camera").open) stop(stream);  // closed before the camera was there
  if (!stream || !$("camera").open) return;
  const view = $("camera-view");
  view.srcObject = stream;
  await view.play().catch(() => undefined);
  let count = 0;
  const shoot = async () => {
    const file = await picture(view, `camera ${new Date().toISOString().replaceAll(":", "-")}.jpg`);
    if (!file) return;
    count += 1;
    $("camera-status").textContent = `${plural(count, "picture")} taken.`;
    take(file);
  };
  $("camera-take").disabled = false;
  $("camera-take").focus();
  $("camera-take").addEventListener("click", shoot);
  await closed;
  $("camera-take").removeEventListener("click", shoot);
  view.srcObject = null;
  stop(stream);
}

async function openCamera() {
  if (!navigator.mediaDevices?.getUserMedia) {
    $("camera-error").textContent = NEEDS_HTTPS;
    return null;
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" }, audio: false });
  } catch (error) {
    $("camera-error").textContent = REFUSED[error.name] ?? `The camera cannot be used (${error.name}).`;
    return null;
  }
}

async function picture(view, name) {
  if (!view.videoWidth) return null;  // nothing was seen yet
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [view.videoWidth, view.videoHeight];
  canvas.getContext("2d").drawImage(view, 0, 0);
  const content = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.95));
  return content && new File([content], name, { type: "image/jpeg" });
}

function stop(stream) {
  for (const track of stream.getTracks()) track.stop();
}
