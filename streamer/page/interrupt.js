// Interrupting a run, after asking whether that is meant.

import { setHidden, setText, byID } from "./dom.js";
import { plural } from "./format.js";
import { post, runPath } from "./request.js";

const dialog = byID("interrupt-dialog");
const yes = byID("interrupt-yes");
const message = byID("interrupt-message");
const problem = byID("interrupt-error");
let id = "";

export function openInterrupt(runID, active) {
  id = runID;
  setText(byID("interrupt-explain"), `${runID}: ${plural(active, "call")} under way will stop without an outcome and go on when the run is resumed. What is finished stays finished.`);
  message.value = "";
  yes.disabled = false;
  setHidden(problem, true);
  dialog.showModal();
  message.focus();
}

async function send() {
  yes.disabled = true;
  setHidden(problem, true);
  try {
    await post(runPath(id) + "/interrupt", { message: message.value });
    dialog.close();
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
