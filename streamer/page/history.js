// The last hour of all runs, minute by minute: failed attempts by error class, retries, failed
// calls, tokens and cost.

import { make, list, setAttribute, setClass, setHidden, setText, byID } from "./dom.js";
import { parse } from "./clock.js";
import { clockTime, cost, count, words } from "./format.js";
import { foldButton, isFolded } from "./panels.js";
import { get } from "./request.js";
import { refine } from "./route.js";

const every = 15_000; // ms
const minutes = 60;

const panel = byID("history");
byID("history-fold").append(foldButton(panel, "history", "the last hour", true));

// The lines of the table. value returns the value for one minute, and text formats the sum.
const lines = [
  { name: "failed attempts", value: (m) => sum(m.classes), parts: (m) => m.classes ?? {} },
  { name: "retries", value: (m) => m.retries },
  { name: "failed calls", value: (m) => m.failures },
  { name: "tokens", value: (m) => m.input_tokens + m.output_tokens },
  { name: "cost", value: (m) => m.cost, text: cost },
];

const sum = (classes) => Object.values(classes ?? {}).reduce((all, n) => all + n, 0);

export class History {
  #body;
  #asked = 0;
  #changed;

  constructor(changed) {
    this.#changed = changed;
  }

  // draw requests the history again from time to time, more often while the panel is open.
  draw(can) {
    setHidden(panel, !can?.history);
    if (!can?.history) return;
    if (!document.hidden && Date.now() - this.#asked > (isFolded("history", true) ? 4 * every : every)) this.#ask();
    if (this.#body) draw(this.#body);
  }

  async #ask() {
    this.#asked = Date.now();
    try {
      this.#body = (await get("api/history")).body;
      this.#changed();
    } catch {
      // The feed shows that the server cannot be reached.
    }
  }
}

function draw({ now, since, minutes: known }) {
  const end = Math.floor(parse(now) / 60_000);
  const at = new Map(known.map((minute) => [parse(minute.at) / 60_000, minute]));
  const columns = Array.from({ length: minutes }, (_, i) => ({ minute: end - minutes + 1 + i, of: at.get(end - minutes + 1 + i) }));
  const begun = parse(since);
  setText(byID("history-since"), `since ${clockTime(begun)}` + (end - begun / 60_000 < minutes - 1 ? ", when this server began to watch" : ""));
  list(byID("history-rows"), lines, (line) => line.name, create, (node, line) => update(node, line, columns, begun));
  const classes = new Map();
  for (const minute of known) for (const [name, n] of Object.entries(minute.classes ?? {})) classes.set(name, (classes.get(name) ?? 0) + n);
  list(byID("history-classes"), [...classes].sort(([, a], [, b]) => b - a), ([name]) => name, ([name]) =>
    make("button", { type: "button", class: "class " + name, title: "Show runs whose last error is of this class", onclick: () => refine({ class: name }) }, make("b"), " " + words(name)),
  (node, [, n]) => setText(node.firstChild, count(n)));
}

function create(line) {
  const node = make("div", { class: "history-row" },
    make("span", { class: "name" }, line.name), make("b", { class: "num" }), make("div", { class: "minutes", role: "img" }));
  for (let i = 0; i < minutes; i++) node.lastChild.append(make("i"));
  return node;
}

function update(node, { name, value, text = count, parts }, columns, begun) {
  const values = columns.map(({ of }) => (of ? value(of) : 0));
  const all = values.reduce((a, b) => a + b, 0);
  const highest = Math.max(...values);
  setText(node.children[1], all ? text(all) : "0");
  setAttribute(node.lastChild, "aria-label", `${name} a minute: ${all ? text(all) : 0} since ${clockTime(begun)}, at most ${highest ? text(highest) : 0} in one`);
  columns.forEach(({ minute, of }, i) => {
    const bar = node.lastChild.children[i];
    const unknown = (minute + 1) * 60_000 <= begun;
    setClass(bar, unknown ? "unknown" : "");
    const shares = parts ? Object.entries(of ? parts(of) : {}).sort(([a], [b]) => (a < b ? -1 : 1)) : values[i] ? [["", values[i]]] : [];
    const each = parts && shares.length > 0 ? ": " + shares.map(([c, n]) => `${n} ${words(c)}`).join(", ") : "";
    setAttribute(bar, "title", `${clockTime(minute * 60_000)}: ${unknown ? "not known" : values[i] ? text(values[i]) + " " + name : "none"}${each}`);
    list(bar, shares, ([c]) => c, ([c]) => make("b", { class: "of " + c }), (part, [, n]) => (part.style.height = ((n / highest) * 100).toFixed(1) + "%"));
  });
}
