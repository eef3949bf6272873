// Panels that the user can fold, to make what is below them fit on the screen. The browser stores
// which panels are folded.

import { make, setAttribute, icon } from "./dom.js";

const key = "reprise-folded";

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
    return typeof kept === "object" && kept !== null ? kept : {};
  } catch {
    return {}; // storage is switched off, or contains something else
  }
}
const kept = read();

// isFolded reports whether a panel is folded. first is its state until the user changes it.
export const isFolded = (name, first = false) => kept[name] ?? first;

// foldButton returns the button that folds a panel. A folded panel has the class
// "folded".
export function foldButton(panel, name, label, first = false) {
  const button = make("button", { type: "button", class: "plain fold", "aria-label": `Show or hide ${label}`, onclick: () => set(!isFolded(name, first)) }, icon("open"));
  function set(fold) {
    kept[name] = fold;
    show();
    try {
      localStorage.setItem(key, JSON.stringify(kept));
    } catch {
      // The setting lasts until the user leaves the page.
    }
  }
  function show() {
    panel.classList.toggle("folded", isFolded(name, first));
    setAttribute(button, "aria-expanded", String(!isFolded(name, first)));
  }
  show();
  return button;
}
