// Shows what a run did before it asked a question: the calls that ended last, and the input of the
// call that asks the question.

import { make, icon } from "./dom.js";
import { CallTree } from "./calls.js";
import { duration, escaped, reason, words } from "./format.js";
import { get, runPath } from "./request.js";
import { href } from "./route.js";

const most = 6; // calls
const read = 300; // the number of records before the question that are read

// before returns an element that shows what the run did when the user opens it.
export function before(q) {
  const body = make("div", {}, make("p", { class: "muted" }, "Loading…"));
  const node = make("details", { class: "before" }, make("summary", {}, "What it did before"), body);
  let asked = false;
  node.addEventListener("toggle", async () => {
    if (!node.open || asked) return;
    asked = true;
    try {
      const path = `${runPath(q.run)}/records?limit=${read}` + (q.seq ? `&before=${q.seq}` : "");
      const { body: page } = await get(path);
      body.replaceChildren(...contents(q, page));
    } catch (error) {
      asked = false;
      body.replaceChildren(make("p", { class: "error" }, error.message));
    }
  });
  return node;
}

function contents(q, { records, omitted }) {
  const tree = new CallTree();
  for (const record of records) tree.take(record);
  const asks = tree.calls.get(q.address);
  const ended = [...tree.calls.values()].filter((call) => (call.status === "completed" || call.status === "failed") && call.kind !== "group" && !call.branch)
    .sort((a, b) => a.end - b.end).slice(-most);
  const parts = [];
  if (asks?.input) parts.push(make("p", {}, make("span", { class: "muted" }, `${asks.name} was given `), make("span", { class: "mono" }, brief(asks.input))));
  if (ended.length === 0) parts.push(make("p", { class: "muted" }, omitted > 0 ? `No call ended in the ${read} records before.` : "No call had ended before."));
  else parts.push(make("ol", {}, ...ended.map((call) => line(q.run, call))));
  for (const { message } of asks?.logs.slice(-3) ?? []) parts.push(make("p", { class: "muted" }, "It logged: " + escaped(message)));
  return parts;
}

function line(run, call) {
  const failed = call.status === "failed";
  const took = call.attempts.length > 0 && call.start ? duration(call.end - call.start) : "";
  return make("li", { class: "s-" + call.status }, icon(call.kind),
    make("a", { href: href({ run, call: call.address }), title: call.address }, call.name),
    make("span", { class: "muted" }, failed ? reason(call.reason, call.max) || "failed" : words(call.status), took && " in " + took),
    make("span", { class: failed ? "error" : "mono" }, brief(failed ? call.error : call.output)));
}

const brief = (text) => {
  const shown = escaped(text ?? "");
  return shown.length > 240 ? shown.slice(0, 240) + "…" : shown;
};
