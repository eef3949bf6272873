// Panels that fold, so that what is below them is on the first screen. This browser keeps
// which are folded.

import { make, setAttribute, icon } from "./dom.js";

const key = "reprise-folded";

function read() {
  try {
    return new Set(JSON.parse(localStorage.getItem(key) ?? "[]"));
  } catch {
    return new Set(); // storage is switched off, or somebody else wrote there
  }
}
const folded = read();

export const isFolded = (name) => folded.has(name);

// foldButton returns the button that folds a panel: the panel has the class "folded" then.
export function foldButton(panel, name, label) {
  const button = make("button", { type: "button", class: "plain fold", "aria-label": `Show or hide ${label}`, onclick: () => set(!folded.has(name)) }, icon("open"));
  function set(fold) {
    if (fold) folded.add(name);
    else folded.delete(name);
    show();
    try {
      localStorage.setItem(key, JSON.stringify([...folded]));
    } catch {
      // It holds for this page alone.
    }
  }
  function show() {
    panel.classList.toggle("folded", folded.has(name));
    setAttribute(button, "aria-expanded", String(!folded.has(name)));
  }
  show();
  return button;
}
