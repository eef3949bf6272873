// The newest records of a run, one line each.

import { make, list, setText, setAttribute, setHidden, icon, byID } from "./dom.js";
import { parse } from "./clock.js";
import { attempt, clockTime, count, duration, escaped, fullTime, reason, source, words } from "./format.js";

const kept = 1000;
const most = 200; // rows

const kinds = {
  all: () => true,
  errors: (r) => r.original_error !== undefined && r.execution_status !== "awaiting" && r.execution_status !== "retrying",
  logs: (r) => r.event_type === "log",
  talk: (r) => r.event_type === "question" || r.event_type === "answer" || r.event_type === "run" || r.execution_status === "interrupted",
};

export const recordKinds = { all: "all", errors: "errors", logs: "logs", talk: "people" };

export class Records {
  #all = [];
  #next = 0; // the key of the next record; some records have no number in the run
  #rows = byID("record-rows");
  #select;
  #kind; // the kind of records that was drawn last
  #shown = 0;
  #drawn = 0;

  constructor(select) {
    this.#select = select;
  }

  clear() {
    this.#all = [];
  }

  take(record) {
    this.#all.push({ key: this.#next++, record });
    if (this.#all.length > 2 * kept) this.#all = this.#all.slice(-kept);
  }

  draw(kind, total) {
    // If records arrive faster than anyone can read, draw them less often.
    const time = performance.now();
    if (kind === this.#kind && this.#next - this.#shown > 40 && time - this.#drawn < 700) return;
    [this.#kind, this.#shown, this.#drawn] = [kind, this.#next, time];
    const picks = kinds[kind] ?? kinds.all;
    const shown = [];
    let matching = 0;
    for (let i = this.#all.length - 1; i >= 0; i--) {
      if (!picks(this.#all[i].record)) continue;
      matching++;
      if (shown.length < most) shown.push(this.#all[i]);
    }
    setText(byID("records-total"), count(total));
    list(this.#rows, shown, (r) => r.key, (r) => this.#create(r.record));
    const rest = kind && kind !== "all" ? matching - shown.length : total - shown.length;
    setHidden(byID("records-more"), rest <= 0);
    setText(byID("records-more"), `${rest} earlier`);
  }

  #create(r) {
    const status = r.event_type === "log" ? r.severity : r.execution_status;
    const node = make("li", { class: `record r-${r.event_type} r-${r.execution_status}${r.will_retry ? " r-again" : ""} severity-${r.severity}`, "data-seq": r.seq },
      make("time", { class: "mono muted", title: fullTime(parse(r.time)) }, clockTime(parse(r.time))),
      icon(iconOf(r)),
      make("span", { class: "what" }, words(status)),
      make("span", { class: "who" }, r.address ? make("button", { type: "button", class: "plain mono", title: r.address, onclick: () => this.#select(r.address) }, r.address) : make("span", { class: "mono" }, r.event_type)),
      make("span", { class: "say" }, ...sayOf(r)));
    setAttribute(node.lastChild, "title", r.original_error ?? r.message);
    return node;
  }
}

function iconOf(r) {
  if (r.event_type === "run" || r.event_type === "log" || r.event_type === "question" || r.event_type === "answer") return r.event_type;
  if (r.event_type === "value") return "value";
  return { started: "running", retrying: "waiting", awaiting: "question" }[r.execution_status] ?? r.execution_status;
}

function sayOf(r) {
  const error = () => [make("span", { class: "class " + r.error_class }, words(r.error_class)), " " + r.original_error];
  switch (r.event_type) {
    case "log":
      return [r.message ?? "", r.metadata ? make("span", { class: "mono muted" }, " " + JSON.stringify(r.metadata)) : ""];
    case "question":
      return [escaped(r.message)];
    case "answer":
      return [`${r.name} = ${escaped(r.detail)}${r.answered_by ? " by " + escaped(r.answered_by) : ""}`];
    case "value":
      return [`${r.name} = ${r.detail ?? ""}`];
    case "run":
      return r.original_error ? [r.original_error] : [r.message ?? ""];
  }
  switch (r.execution_status) {
    case "started":
      return [[r.retry_attempt > 0 ? "attempt " + attempt(r.retry_attempt, r.max_attempts) : "", { lost: "again: the process ended during it", retry: "again: it had failed for good", in_doubt: "it may have taken effect" }[r.reason]].filter(Boolean).join(" ")];
    case "failed":
      return [...error(), r.will_retry ? "" : ` · ${reason(r.reason, r.max_attempts) || "failed"} after ${duration(r.total_time * 1000)}`];
    case "retrying":
      return [`attempt ${attempt(r.retry_attempt, r.max_attempts)} in ${duration(r.retry_delay * 1000)} (${source(r.delay_source)})`];
    case "completed":
      return [duration(r.total_time * 1000) + (r.total_attempts > 1 ? ` · ${r.total_attempts} attempts` : "") + (r.cached ? " · from the cache" : "") + (r.effect ? ` · the effect of ${r.effect.address}` : ""), r.detail && r.event_type !== "compensation" ? make("span", { class: "mono muted" }, "  " + r.detail) : ""];
    case "recovered":
      return ["answered from what was recorded"];
    case "interrupted":
    case "cancelled":
      return [r.original_error ?? ""];
  }
  return [r.message ?? ""];
}
