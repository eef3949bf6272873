// The keys that the page handles. Everything can be done with the keyboard alone.

import { make, byID } from "./dom.js";
import { filterNames } from "./overview.js";
import { go, refine, route } from "./route.js";

const dialog = byID("keys");

const keys = [
  ["j, k", "next row, previous row"],
  ["Enter", "open the run, show the call"],
  ["h, l", "hide, show the calls inside a call"],
  ["Esc", "clear the search and the filters, close, go back"],
  ["n, N", "next failed call, previous one"],
  ["/", "search"],
  ["a", "answer the first question"],
  ["i", "interrupt the run shown"],
  ["p", "freeze the display, or continue"],
  ["t", "dark, light, or like the system"],
  ["?", "these keys"],
];

byID("key-list").append(...keys.flatMap(([key, text]) => [
  make("dt", {}, ...key.split(", ").flatMap((k, i) => [i ? " " : null, make("kbd", {}, k)])), make("dd", {}, text)]));
byID("keys-close").addEventListener("click", () => dialog.close());
byID("help").addEventListener("click", () => dialog.showModal());

// listen starts handling keys. The app has the methods view, pause and theme.
export function listen(app) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest("input, select, textarea");
    if (typing && event.key !== "Escape") return;
    const act = actions[event.key];
    if (act && act(app, event) !== false) event.preventDefault();
  });
}

const actions = {
  j: (app) => step(app, 1),
  k: (app) => step(app, -1),
  ArrowDown: (app, event) => (event.target.closest("[data-row]") ? step(app, 1) : false),
  ArrowUp: (app, event) => (event.target.closest("[data-row]") ? step(app, -1) : false),
  Enter: (app, event) => {
    const call = event.target.closest("[data-call]");
    if (!call || event.target.closest("button, a")) return false;
    if (call.classList.contains("loop")) app.view().toggle(call.dataset.call);
    else app.view().select(call.dataset.call);
  },
  h: (app, event) => fold(app, event, true),
  l: (app, event) => fold(app, event, false),
  ArrowLeft: (app, event) => fold(app, event, true),
  ArrowRight: (app, event) => fold(app, event, false),
  n: (app) => void app.view().nextFailure?.(1),
  N: (app) => void app.view().nextFailure?.(-1),
  "/": (app) => {
    const input = app.view().element.querySelector("input[type=search]");
    input.focus();
    input.select();
  },
  a: answer,
  i: (app) => app.view().interrupt?.() ?? app.view().element.querySelector("#run-continue .command button")?.focus() ?? false,
  p: (app) => app.pause(),
  t: (app) => app.theme(),
  "?": () => dialog.showModal(),
  Escape: escape,
};

// step moves the focus to the next or the previous row.
function step(app, by) {
  const rows = [...app.view().element.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  if (rows.length === 0) return false;
  const here = document.activeElement?.closest("[data-row]") ?? document.activeElement?.closest(".row, .wait, .question")?.querySelector("[data-row]");
  const at = rows.indexOf(here);
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

// answer moves the focus to the first control for answering the first question, or to the button
// that copies the command for answering it.
function answer(app) {
  const { element } = app.view();
  const card = element.querySelector(".question:not(.answered)");
  if (!card) return false;
  if (card.closest(".folded")) element.querySelector(".questions-head .fold").click();
  card.scrollIntoView({ block: "nearest" });
  card.querySelector(".answer :is(button, input, select, textarea), .byhand button")?.focus({ preventScroll: true });
}

function fold(app, event, collapse) {
  const call = event.target.closest("[data-call]");
  if (!call || !app.view().toggle) return false;
  app.view().toggle(call.dataset.call, collapse);
}

// escape leaves something: depending on the view, it closes the details of a call, clears the
// search or the filters, or goes back.
function escape(app, event) {
  const to = route();
  const typing = event.target.closest("input, select, textarea");
  if (to.call) refine({ call: undefined });
  else if (to.q || to.status || to.kind || to.only) refine({ q: undefined, status: undefined, kind: undefined, only: undefined });
  else if (typing) typing.blur();
  else if (!to.run && filterNames.some((name) => to[name])) refine(Object.fromEntries(filterNames.map((name) => [name, undefined])));
  else if (to.run) go({});
  else document.activeElement?.blur();
  if (typing?.type === "search" && !to.q) typing.blur();
}
