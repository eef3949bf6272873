// Stops a run, either for now or for good, after the user has confirmed it.

import { setHidden, setText, byID } from "./dom.js";
import { plural } from "./format.js";
import { post, runPath } from "./request.js";
import * as who from "./who.js";

const dialog = byID("interrupt-dialog");
const yes = byID("interrupt-yes");
const message = byID("interrupt-message");
const problem = byID("interrupt-error");
let id = "";
let action = "interrupt";
let onStopping; // called if the run was asked to stop but has not stopped yet

export function openInterrupt(runID, active, stopping) {
  open("interrupt", runID, stopping, {
    title: "Interrupt this run?", yes: "Interrupt the run", no: "Let it run",
    explain: `${plural(active, "call")} in progress will stop without an outcome and continue when the run is resumed. Calls that have ended keep their outcomes.`,
  });
}

export function openCancel(runID, stopping) {
  open("cancel", runID, stopping, {
    title: "Cancel this run for good?", yes: "Cancel the run", no: "Keep it",
    explain: "it stops, and nothing can resume it afterwards. Calls that have ended stay on record.",
  });
}

function open(what, runID, stopping, texts) {
  action = what;
  onStopping = stopping;
  id = runID;
  setText(byID("interrupt-title"), texts.title);
  setText(byID("interrupt-explain"), `${runID}: ${texts.explain}`);
  setText(yes, texts.yes);
  setText(byID("interrupt-no"), texts.no);
  message.value = "";
  who.fill(byID("interrupt-as"), "You do this");
  yes.disabled = false;
  setHidden(problem, true);
  dialog.showModal();
  message.focus();
}

async function send() {
  yes.disabled = true;
  setHidden(problem, true);
  try {
    const { stopping } = await post(`${runPath(id)}/${action}`, who.signed({ message: message.value }));
    dialog.close();
    if (stopping) onStopping();
  } catch (error) {
    yes.disabled = false;
    setText(problem, error.message);
    setHidden(problem, false);
  }
}

yes.addEventListener("click", send);
byID("interrupt-no").addEventListener("click", () => dialog.close());
message.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !yes.disabled) send();
});
