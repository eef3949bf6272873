// Having a stopped run go on, and beginning another one from a call of it. Where the page
// may not, it says the command that does.

import { make, setHidden, setText, byID } from "./dom.js";
import { isSettled } from "./fold.js";
import { post, runPath } from "./request.js";
import { href } from "./route.js";

// What can be done with a run that has stopped, by its status.
const ways = { interrupted: "resume", failed: "retry" };

let drawn = ""; // what the line shows

let sent = ""; // the run that this page has just queued

// draw shows how the run can go on, below its head, and the commands for what the page may
// not do with it. It calls onQueued when the page has queued the run.
export function draw(run, can, onQueued) {
  if (run?.status === "queued" && run.run_id === sent) return; // the line says so
  const line = byID("run-goon");
  const way = ways[run?.status];
  const commands = run ? commandsOf(run, can, way) : [];
  setHidden(line, !way && commands.length === 0);
  const version = run ? [run.run_id, run.status, can.resume, can.interrupt, can.cancel, way && run.last_seq].join("\n") : "";
  if (version === drawn) return;
  sent = "";
  drawn = version;
  line.replaceChildren(...(way && can.resume ? button(run, way, onQueued) : []), ...commands);
}

// commandsOf are the commands for what the page may not do with a run.
function commandsOf(run, can, way) {
  const commands = [];
  const add = (verb) => commands.push(make("span", { class: "command" }, ...byCommand(`This page may not ${verb} runs.`, ["reprise", verb, run.run_id])));
  if (way && !can.resume) add(way);
  if (run.status === "running" && !can.interrupt) add("interrupt");
  if (!isSettled(run) && !can.cancel) add("cancel");
  return commands;
}

function button(run, way, onQueued) {
  const problem = make("span", { class: "error", role: "alert", hidden: true });
  const button = make("button", { type: "button", id: "goon", class: "quiet", onclick: send }, way === "resume" ? "Resume the run" : "Try again what failed");
  const said = make("span", { role: "status" });

  async function send() {
    button.disabled = true;
    setHidden(problem, true);
    try {
      await post(`${runPath(run.run_id)}/${way}`, {});
      setText(said, "It is queued, and goes on when a program takes it.");
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

// byCommand is a command with a button that copies it.
export function byCommand(why, words) {
  const command = words.map(quote).join(" ");
  const button = make("button", { type: "button", class: "quiet", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(command);
      setText(button, "Copied");
    } catch {
      setText(button, "Not allowed"); // by the browser
    }
  }
  return [make("span", {}, why + " This does: "), make("code", {}, command), button];
}

const dialog = byID("fork-dialog");
const id = byID("fork-id");
const effects = byID("fork-effects");
const problem = byID("fork-error");
const yes = byID("fork-yes");
let from = {};

// again is an ID for the fork of a run, as long as an ID may be.
const again = (run) => run.slice(0, 128 - "-again".length) + "-again";

// openFork asks for the new run that begins before a call.
export function openFork(run, address, can) {
  from = { run, address };
  setText(byID("fork-explain"), `A new run begins with what ${run} has recorded before ${address}, and makes that call and all behind it again.`);
  id.value = again(run);
  effects.value = "";
  setHidden(problem, true);
  setHidden(byID("fork-done"), true);
  setHidden(byID("fork-form"), !can.fork);
  byID("fork-command").replaceChildren(...(can.fork ? [] : byCommand("This page may not fork runs.", ["reprise", "fork", run, address, again(run)])));
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
    done.replaceChildren("The new run is ", make("a", { href: href({ run: wanted.run_id }), onclick: () => dialog.close() }, wanted.run_id), ". It goes on when it is resumed.");
    setHidden(done, false);
    yes.hidden = true;
  } catch (error) {
    yes.disabled = false;
    setText(problem, error.message);
    setHidden(problem, false);
  }
});
byID("fork-no").addEventListener("click", () => dialog.close());
