// Panels that fold, so that what is below them is on the first screen. This browser keeps
// which are folded.

import { make, setAttribute, icon } from "./dom.js";

const key = "reprise-folded";

function read() {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "{}");
    return typeof kept === "object" && kept !== null ? kept : {};
  } catch {
    return {}; // storage is switched off, or somebody else wrote there
  }
}
const kept = read();

// isFolded reports whether a panel is folded; first is what it is until somebody changes it.
export const isFolded = (name, first = false) => kept[name] ?? first;

// foldButton returns the button that folds a panel: the panel has the class "folded" then.
export function foldButton(panel, name, label, first = false) {
  const button = make("button", { type: "button", class: "plain fold", "aria-label": `Show or hide ${label}`, onclick: () => set(!isFolded(name, first)) }, icon("open"));
  function set(fold) {
    kept[name] = fold;
    show();
    try {
      localStorage.setItem(key, JSON.stringify(kept));
    } catch {
      // It holds for this page alone.
    }
  }
  function show() {
    panel.classList.toggle("folded", isFolded(name, first));
    setAttribute(button, "aria-expanded", String(!isFolded(name, first)));
  }
  show();
  return button;
}
