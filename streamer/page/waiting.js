// The calls, in all runs, that wait for a time, such as that of their next attempt. The list shows
// how long they wait, and why.

import { make, list, setText, setClass, setAttribute, setHidden, setIcon, icon, byID } from "./dom.js";
import { now, parse } from "./clock.js";
import * as fold from "./fold.js";
import { atTime, attempt, count, countdown, duration, plural, source, words } from "./format.js";
import { foldButton } from "./panels.js";
import { href, refine } from "./route.js";
import { callMatches } from "./runs.js";

const most = 50; // rows
const bins = 60; // the number of bins, each of which is one second

byID("waiting-fold").append(foldButton(byID("waiting"), "waiting", "what waits"));

// parkedCall returns the call that a parked run waits for. If the run's calls are not known, it
// returns an object that stands for the run instead. If it is not known when the run continues, it
// returns undefined.
function parkedCall(run) {
  if (!run.due_at) return undefined;
  const calls = fold.waiting(run);
  const call = calls.find((call) => call.next_attempt_at) ?? calls.findLast((call) => !calls.some((other) => other.address.startsWith(call.address + "/")));
  return { event_type: "run", name: run.program ?? run.run_id, address: "", ...call, next_attempt_at: run.due_at };
}

export class Waiting {
  #rows = byID("waiting-rows");
  #calls = []; // waiting calls as {run, call, at}, ordered by when they are due
  #total = 0;

  // draw shows the waiting calls of the runs.
  draw(runs, filter, now) {
    const calls = [];
    let total = 0;
    for (const run of runs) {
      const parked = fold.isParked(run) ? parkedCall(run) : undefined;
      if (!parked && (run.status !== "running" || run.calls.waiting === 0)) continue;
      const named = filter.text && (run.run_id.toLowerCase().includes(filter.text) || run.description?.toLowerCase().includes(filter.text));
      if (!filter.text && !filter.kind) total += parked ? 1 : run.calls.waiting; // including calls that the server has not listed
      for (const call of parked ? [parked] : fold.waiting(run)) {
        if (filter.kind && call.event_type !== filter.kind) continue;
        if (filter.text && !named && !callMatches(call, filter.text)) continue;
        calls.push({ run: run.run_id, call, at: parse(call.next_attempt_at) });
      }
    }
    calls.sort((a, b) => a.at - b.at);
    this.#calls = calls;
    this.#total = Math.max(total, calls.length);
    this.#summarize();
    list(this.#rows, calls.slice(0, most), (w) => w.run + "\n" + w.call.address, create, update);
    const rest = this.#total - Math.min(calls.length, most);
    setHidden(byID("waiting-more"), rest === 0);
    setText(byID("waiting-more"), rest ? `${rest} more wait longer than these.` : "");
    setHidden(byID("herd"), calls.length < 3);
    this.tick(now);
  }

  get total() {
    return this.#total;
  }

  // tick updates the countdowns.
  tick(now) {
    let i = 0;
    for (const node of this.#rows.children) {
      const w = this.#calls[i++];
      if (!w) break;
      const left = w.at - now;
      setText(node.parts.left, countdown(left));
      setClass(node.parts.left, left > -2000 ? "left num" : "left num late");
      const whole = (w.call.retry_delay ?? 0) * 1000;
      node.parts.bar.style.transform = `scaleX(${whole > 0 ? Math.min(1, Math.max(0, left / whole)).toFixed(3) : 0})`;
    }
    this.#tickSummary(now);
  }

  #summarize() {
    setText(byID("waiting-total"), count(this.#total));
    setClass(byID("waiting"), this.#total ? "panel waiting some" : "panel waiting");
    const classes = new Map();
    const sources = new Map();
    for (const { call } of this.#calls) {
      if (call.error_class) classes.set(call.error_class, (classes.get(call.error_class) ?? 0) + 1);
      const by = call.delay_source || "time";
      sources.set(by, (sources.get(by) ?? 0) + 1);
    }
    const byCount = ([, a], [, b]) => b - a;
    const parts = [
      ...[...sources].sort(byCount).map(([name, n]) => ({ name, n, what: "by " + source(name), kind: "by" })),
      ...[...classes].sort(byCount).slice(0, 6).map(([name, n]) => ({ name, n, what: words(name), kind: "class" })),
    ];
    list(byID("waiting-classes"), parts, (p) => p.kind + p.name, (p) => {
      const node = make("button", { type: "button", class: `class ${p.kind} ${p.name}`, title: "Show only these", onclick: () => refine({ q: p.name }) },
        make("b"), " " + p.what);
      if (p.kind === "by") node.prepend(icon(p.name === "retry_after" ? "service" : "backoff"));
      return node;
    }, (node, p) => setText(node.querySelector("b"), count(p.n)));
  }

  // #tickSummary shows when the first and the last of the calls continue, and draws the number of
  // calls that continue in each second. Calls that continue together may fail together.
  #tickSummary(now) {
    const calls = this.#calls;
    let text = "Nothing waits.";
    if (calls.length > 0) {
      const runs = new Set(calls.map((w) => w.run)).size;
      text = `in ${plural(runs, "run")} · next ${calls[0].at > now ? "in " + countdown(calls[0].at - now) : "now"}`;
      if (calls.length > 1) text += ` · last in ${duration(calls.at(-1).at - now)}`;
    }
    setText(byID("waiting-when"), text);
    if (calls.length < 3) return;
    const counts = new Array(bins).fill(0);
    const asked = new Array(bins).fill(0);
    for (const { at, call } of calls) {
      const bin = Math.min(bins - 1, Math.max(0, Math.floor((at - now) / 1000)));
      counts[bin]++;
      if (call.delay_source === "retry_after") asked[bin]++;
    }
    const highest = Math.max(4, ...counts);
    const herd = byID("herd");
    if (herd.childElementCount === 0) {
      for (let i = 0; i < bins; i++) herd.append(make("i", { class: i % 10 === 0 ? "mark" : undefined }, make("b"), make("b")));
    }
    counts.forEach((n, i) => {
      const [all, service] = herd.children[i].children;
      setHeight(all, n / highest);
      setHeight(service, asked[i] / highest);
      setAttribute(herd.children[i], "title", n ? `${plural(n, "attempt")} in ${i} s` : undefined);
    });
  }
}

// afterColon returns the part of a suspended call's error after the colon: what the call waits for.
const afterColon = (text) => (text ?? "").replace(/^interrupted \(awaiting[^)]*\): /, "");

function setHeight(element, share) {
  const height = (share * 100).toFixed(1) + "%";
  if (element.style.height !== height) element.style.height = height;
}

function create({ run, call }) {
  const cell = (name, ...children) => make("span", { class: name, role: "cell" }, ...children);
  const node = make("div", { class: "wait", role: "row", "data-wait": call.address });
  node.parts = {};
  node.parts.left = make("span", { class: "left num" });
  node.parts.bar = make("i");
  node.parts.name = make("a", { class: "name", href: href({ run, call: call.address || undefined }), "data-row": true }, icon(call.event_type), make("span", {}, call.name));
  node.parts.attempt = cell("attempt");
  node.parts.why = cell("why", icon("backoff"), make("span"));
  node.parts.class = make("span", { class: "class" });
  node.parts.message = make("span", { class: "message" });
  node.append(
    cell("countdown", node.parts.left, make("span", { class: "meter" }, node.parts.bar)),
    cell("call", node.parts.name, make("span", { class: "address mono" }, call.address)),
    node.parts.attempt, node.parts.why,
    cell("error", node.parts.class, node.parts.message),
    cell("of", make("a", { class: "mono", href: href({ run }), tabindex: -1 }, run)));
  return node;
}

function update(node, { call }) {
  setText(node.parts.attempt, call.retry_attempt > 0 ? "attempt " + attempt(call.retry_attempt, call.max_attempts) : "");
  setText(node.parts.why.lastChild, `${source(call.delay_source)} ${call.retry_delay ? duration(call.retry_delay * 1000) : ""}`.trim() || `until ${atTime(parse(call.next_attempt_at), now())}`);
  setIcon(node.parts.why.firstChild, call.delay_source === "retry_after" ? "service" : "backoff");
  setClass(node.parts.why, "why " + call.delay_source);
  setAttribute(node.parts.why, "title", call.delay_source === "retry_after" ? "The service said when to come back" : "Chosen by the retry configuration");
  setText(node.parts.class, words(call.error_class));
  setClass(node.parts.class, call.error_class ? "class " + call.error_class : "class");
  const message = call.execution_status === "awaiting" ? afterColon(call.original_error) : call.original_error ?? "";
  setText(node.parts.message, message);
  setAttribute(node.parts.message, "title", message);
}
