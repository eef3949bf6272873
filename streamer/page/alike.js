// Answers similar questions from many runs at once: the user looks at the list and deselects the
// questions that are different.

import { markAnswered } from "./answered.js";
import { answerForm } from "./answerform.js";
import { make, list, setHidden, setText, byID } from "./dom.js";
import { escaped, plural } from "./format.js";
import { get, post, runPath } from "./request.js";
import { href } from "./route.js";
import { signed } from "./who.js";

const least = 3; // the size of the smallest group that is shown
const atOnce = 1000; // the maximum number of questions in one request

// keyOf returns the same key for questions that differ only in numbers and in the IDs of their
// runs.
function keyOf(q) {
  return [q.awaits ?? "", numberless(q.id), numberless((q.message ?? "").replaceAll(q.run, "…"))].join("\n");
}
const numberless = (text) => text.replace(/\d+/g, "#");

function groupsOf(questions) {
  const groups = new Map();
  for (const q of questions) {
    if (q.in_doubt || q.answered) continue; // one is looked at by itself, the other needs no answer
    const key = keyOf(q);
    if (!groups.has(key)) groups.set(key, { key, questions: [] });
    groups.get(key).questions.push(q);
  }
  return [...groups.values()].filter((group) => group.questions.length >= least).sort((a, b) => b.questions.length - a.questions.length);
}

// draw shows a line for each group of similar questions.
export function draw(element, questions, can) {
  const groups = can.answer ? groupsOf(questions).slice(0, 5) : [];
  setHidden(element, groups.length === 0);
  list(element, groups, (group) => group.key, () => {
    const node = make("li", {}, make("span"), make("button", { type: "button", class: "quiet", onclick: () => open(node.group) }, "Answer together…"));
    return node;
  }, (node, group) => {
    node.group = group;
    setText(node.firstChild, `${group.questions.length} alike: ${shared(group)}`);
  });
}

const shared = ({ questions: [q] }) => numberless(escaped((q.message || q.id).replaceAll(q.run, "…"))).replaceAll("#", "…");

const dialog = byID("alike-dialog");
const rows = byID("alike-rows");
const form = byID("alike-form");
const said = byID("alike-said");
const all = byID("alike-all");

let turn = 0; // how often the dialog was opened

async function open(group) {
  const mine = ++turn;
  setText(byID("alike-title"), plural(group.questions.length, "question") + " alike");
  setText(said, "");
  all.checked = true;
  all.indeterminate = false;
  rows.replaceChildren(...group.questions.map((q) => row(q)));
  form.replaceChildren(make("p", { class: "muted" }, "Loading…"));
  count();
  dialog.showModal();
  try {
    const [first] = group.questions;
    const { body } = await get(runPath(first.run) + "?limit=1");
    if (mine !== turn) return;
    const read = body.run.questions?.find(({ id }) => id === first.id) ?? first;
    form.replaceChildren(answerForm({ ...first, ...read, message: "" }, { label: "each of them", send }));
  } catch (error) {
    if (mine === turn) form.replaceChildren(make("p", { class: "error", role: "alert" }, error.message));
  }
}

function row(q) {
  const box = make("input", { type: "checkbox", checked: true, onchange: count });
  const node = make("li", {}, make("label", {}, box, make("span", {}, escaped(q.message || q.id))),
    make("a", { class: "mono", href: href({ run: q.run }), onclick: () => dialog.close() }, q.run));
  Object.assign(node, { q, box });
  return node;
}

const picked = () => [...rows.children].filter((node) => node.box.checked && !node.box.disabled);

function count() {
  const open = [...rows.children].filter((node) => !node.box.disabled);
  const n = picked().length;
  all.checked = n > 0 && n === open.length;
  all.indeterminate = n > 0 && n < open.length;
  setText(byID("alike-count"), n === 0 ? "None is selected." : `The answer goes to ${n === open.length ? "all " : ""}${n}:`);
}

all.addEventListener("change", () => {
  for (const node of rows.children) if (!node.box.disabled) node.box.checked = all.checked;
  count();
});

// send answers the selected questions, and marks those whose answers were refused.
async function send(value) {
  const nodes = picked();
  if (nodes.length === 0) throw new Error("No question is selected.");
  let refused = 0;
  for (let i = 0; i < nodes.length; i += atOnce) {
    const part = nodes.slice(i, i + atOnce);
    const body = await post("api/questions/answer", signed({ value, questions: part.map(({ q }) => ({ run_id: q.run, question: q.id })) }));
    body.answers.forEach(({ error }, j) => {
      const node = part[j];
      node.querySelector(".error, .done")?.remove();
      node.append(error ? make("p", { class: "error" }, error) : make("span", { class: "done muted" }, "answered"));
      if (error) return refused++;
      node.box.disabled = true;
      node.box.checked = false;
      markAnswered(node.q);
    });
  }
  setText(said, plural(nodes.length - refused, "question is", "questions are") + " answered" + (refused ? `, ${refused} refused: see below.` : "."));
  count();
  return { again: true };
}

byID("alike-no").addEventListener("click", () => dialog.close());
