// The store as the server last described it; sections register what to do when it is read again.

import { $, call } from "./parts.js";

export const state = { store: null, classes: [] };
const listeners = [];

export const afterRefresh = (listener) => listeners.push(listener);

export async function refresh() {
  try {
    [state.store, state.classes] = await Promise.all([call("GET", "/api/store"), call("GET", "/api/classes")]);
  } catch (error) {
    $("failure").textContent = error.message;
    $("failure").hidden = false;
    return;
  }
  $("failure").hidden = true;
  for (const listener of listeners) listener();
}

export const loaded = refresh();
