// Continues a stopped run, or forks a run from one of its calls. If the page is not allowed to do
// so, it shows the command that does.

import { make, setHidden, setText, byID } from "./dom.js";
import { isSettled } from "./fold.js";
import { post, runPath } from "./request.js";
import { href } from "./route.js";

// What can be done with a stopped run, by the run's status.
const ways = { interrupted: "resume", failed: "retry" };

// wayOf returns what can be done with a run. It returns undefined if nothing can be done, or if
// only the run's program can continue it.
const wayOf = (run) => (run?.stop?.reason === "retry" ? undefined : ways[run?.status]);

let drawn = ""; // what the line shows

let sent = ""; // the run that this page queued last

// draw shows, below the run's head, how the run can be continued, and the commands for the actions
// that the page is not allowed to take. It calls onQueued after the page has queued the run.
export function draw(run, can, onQueued) {
  if (run?.status === "queued" && run.run_id === sent) return; // the line already says that it is queued
  const line = byID("run-continue");
  const way = wayOf(run);
  const commands = run ? commandsOf(run, can, way) : [];
  setHidden(line, !way && commands.length === 0);
  const version = run ? [run.run_id, run.status, can.resume, can.interrupt, can.cancel, way && run.last_seq].join("\n") : "";
  if (version === drawn) return;
  sent = "";
  drawn = version;
  line.replaceChildren(...(way && can.resume ? button(run, way, onQueued) : []), ...commands);
}

// commandsOf returns the commands for the actions that the page is not allowed to take on a run.
function commandsOf(run, can, way) {
  const commands = [];
  const add = (verb) => commands.push(make("span", { class: "command" }, ...byCommand(`You cannot ${verb} runs here.`, ["reprise", verb, run.run_id])));
  if (way && !can.resume) add(way);
  if (run.status === "running" && !can.interrupt) add("interrupt");
  if (!isSettled(run) && !can.cancel) add("cancel");
  return commands;
}

function button(run, way, onQueued) {
  const problem = make("span", { class: "error", role: "alert", hidden: true });
  const button = make("button", { type: "button", id: "continue", class: "quiet", onclick: send }, way === "resume" ? "Resume the run" : "Retry what failed");
  const said = make("span", { role: "status" });

  async function send() {
    button.disabled = true;
    setHidden(problem, true);
    try {
      await post(`${runPath(run.run_id)}/${way}`, {});
      setText(said, run.program ? "It is queued, and continues when a program takes it." : "It continues when its program opens it.");
      sent = run.run_id;
      onQueued();
    } catch (error) {
      button.disabled = false;
      setHidden(problem, false);
      setText(problem, error.message);
    }
  }
  return [button, said, problem];
}

const quote = (text) => (/^[\w./:@%+-]+$/.test(text) ? text : "'" + text.replaceAll("'", `'\\''`) + "'");

// byCommand returns elements that show a command, with a button that copies it.
export function byCommand(why, words) {
  const command = words.map(quote).join(" ");
  const button = make("button", { type: "button", class: "quiet", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(command);
      setText(button, "Copied");
    } catch {
      setText(button, "Not allowed"); // the browser does not allow it
    }
  }
  return [make("span", {}, why + " Use this command: "), make("code", {}, command), button];
}

const dialog = byID("fork-dialog");
const id = byID("fork-id");
const effects = byID("fork-effects");
const problem = byID("fork-error");
const yes = byID("fork-yes");
let from = {};

// again returns an ID for a fork of the run, cut so that it does not exceed the maximum length of
// an ID.
const again = (run) => run.slice(0, 128 - "-again".length) + "-again";

// openFork opens the dialog for a new run that begins before a call.
export function openFork(run, address, can) {
  from = { run, address };
  setText(byID("fork-explain"), `A new run begins with what ${run} has recorded before ${address}, and makes that call and all later ones again.`);
  id.value = again(run);
  effects.value = "";
  setHidden(problem, true);
  setHidden(byID("fork-done"), true);
  setHidden(byID("fork-form"), !can.fork);
  byID("fork-command").replaceChildren(...(can.fork ? [] : byCommand("You cannot fork runs here.", ["reprise", "fork", run, address, again(run)])));
  yes.hidden = !can.fork;
  yes.disabled = false;
  dialog.showModal();
  if (can.fork) id.select();
}

yes.addEventListener("click", async () => {
  yes.disabled = true;
  setHidden(problem, true);
  try {
    const wanted = { run_id: id.value.trim(), address: from.address };
    if (effects.value) wanted.effects = effects.value;
    await post(`${runPath(from.run)}/fork`, wanted);
    const done = byID("fork-done");
    done.replaceChildren("The new run is ", make("a", { href: href({ run: wanted.run_id }), onclick: () => dialog.close() }, wanted.run_id), ". It continues when it is resumed.");
    setHidden(done, false);
    yes.hidden = true;
  } catch (error) {
    yes.disabled = false;
    setText(problem, error.message);
    setHidden(problem, false);
  }
});
byID("fork-no").addEventListener("click", () => dialog.close());
