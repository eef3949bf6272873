// Starts a run of a program, using a form that is made from the schema of its input.

import { editorOf, isNullable, showProblem } from "./answers.js";
import { make, setHidden, setText, byID } from "./dom.js";
import { fullTime } from "./format.js";
import { get, post } from "./request.js";
import { go } from "./route.js";
import { parse } from "./clock.js";

const dialog = byID("start-dialog");
const program = byID("start-program");
const version = byID("start-version");
const form = byID("start-form");
const problem = byID("start-error");
const yes = byID("start-yes");
let programs = [];
let editor;

// draw shows the start button if the page is allowed to start programs.
export const draw = (can) => setHidden(byID("start"), !can?.start);

async function open() {
  fail();
  form.replaceChildren(make("p", { class: "muted" }, "Loading…"));
  yes.disabled = true;
  dialog.showModal();
  try {
    ({ programs } = (await get("api/programs")).body);
    program.replaceChildren(...programs.map(({ name }) => make("option", { value: name }, name)));
    if (programs.length === 0) form.replaceChildren(make("p", { class: "muted" }, "No program is registered here."));
    else choose();
  } catch (error) {
    form.replaceChildren();
    fail(error);
  }
}

// choose makes the form for the selected program.
function choose() {
  const chosen = programs.find(({ name }) => name === program.value);
  version.replaceChildren(...chosen.versions.map((name) => make("option", { value: name, selected: name === chosen.version }, name === chosen.version ? `${name}, the newest` : name)));
  editor = editorOf(chosen.input ?? {}, { label: "Input", required: !isNullable(chosen.input) });
  form.replaceChildren(editor.node);
  setText(byID("start-schedules"), (chosen.schedules ?? []).map(({ name, when, next }) => `Schedule ${name} starts it ${when}` + (next ? `, next at ${fullTime(parse(next))}.` : ", and not again.")).join(" "));
  yes.disabled = false;
  fail();
}

function fail(error) {
  showProblem(dialog);
  const text = error ? showProblem(dialog, error) : "";
  setHidden(problem, !text);
  setText(problem, text);
}

async function start() {
  fail();
  let input;
  try {
    input = editor.read();
  } catch (error) {
    return fail(error);
  }
  const wanted = { program: program.value, version: version.value, input: input === undefined ? null : input };
  for (const [name, control] of [["run_id", "start-id"], ["description", "start-description"]]) {
    const text = byID(control).value.trim();
    if (text) wanted[name] = text;
  }
  const tags = byID("start-tags").value.split(",").map((tag) => tag.trim()).filter(Boolean);
  if (tags.length > 0) wanted.tags = tags;
  const at = byID("start-at").value;
  if (at) wanted.at = new Date(at).toISOString();
  yes.disabled = true;
  try {
    const { run_id } = await post("api/runs", wanted);
    dialog.close();
    go({ run: run_id });
  } catch (error) {
    fail(error);
  }
  yes.disabled = false;
}

program.addEventListener("change", choose);
byID("start").addEventListener("click", open);
byID("start-no").addEventListener("click", () => dialog.close());
byID("start-yes").addEventListener("click", start);
