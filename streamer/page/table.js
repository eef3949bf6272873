// The runs that the server finds for what the address asks for: by status, text, program,
// version, tag, class of error and time, in each order, page by page.

import { parse } from "./clock.js";
import { get, Refusal, timedOut } from "./request.js";
import { isOver, order } from "./runs.js";

const perPage = 200;
const patience = 250; // ms after the last key
const again = 3000; // ms after which a search that got no answer is tried again

// The parts of the address that filter, and what the server calls them.
const filters = { status: "status", q: "text", program: "program", version: "version", pipeline: "pipeline", tag: "tag", class: "class", parent: "parent", since: "since", until: "until" };

// A time without a zone is one of this machine's clock: 2026-01-02 or 2026-01-02 15:04.
const local = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?$/;
export function timeOf(text) {
  const [, day, time = "00:00"] = local.exec(text.trim()) ?? [];
  const at = new Date(`${day}T${time}`);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
}
const times = new Set(["since", "until"]);

// sorts are what a list can be sorted by, with the value of a run.
const tokens = (run) => run.usage.input_tokens + run.usage.output_tokens;
export const sorts = {
  updated: (run) => parse(run.updated_at),
  start: (run) => parse(run.created_at),
  end: (run) => (isOver(run) ? parse(run.updated_at) : 0),
  duration: (run, now) => (run.status === "running" ? now : parse(run.updated_at)) - parse(run.created_at),
  cost: (run) => run.usage.cost,
  tokens,
  retries: (run) => run.calls.retries,
};

// orderOf compares runs in the order of the address; without one, runs that go on come
// first.
export function orderOf({ sort, order: direction }, now) {
  const value = sorts[sort];
  if (!value) return order;
  const sign = direction === "asc" ? 1 : -1;
  return (a, b) => sign * (value(a, now) - value(b, now)) || (a.run_id < b.run_id ? -1 : 1);
}

export class Table {
  total = 0; // of the runs that the address asks for
  next = ""; // where the next page begins; empty after the last
  problem = ""; // why there is no answer
  exact = true; // the server knows all that is asked for
  #runs;
  #changed;
  #asked = ""; // what the server was asked for last
  #timer;
  #recounting;
  #turn = 0;

  constructor(runs, changed) {
    this.#runs = runs;
    this.#changed = changed;
  }

  // load takes over a snapshot, which is of all runs.
  load(body) {
    if (this.#asked !== "") return this.#ask(this.#asked);
    this.total = body.total ?? body.runs.length;
    this.next = body.next ?? "";
  }

  // show asks the server for what the address says, if that is something else.
  show(to) {
    const path = pathOf(to);
    this.exact = !to.kind && !(to.status ?? "").split(",").includes("waiting");
    if (path === this.#asked) return;
    this.#asked = path;
    this.next = ""; // it was of another list
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(path), patience);
  }

  // all reports whether the address asks for all runs, in the order of the page.
  get all() {
    return this.#asked === "";
  }

  // touch notes that a run begins, ends or was deleted: the total may be another one. It is
  // asked for at most every five seconds.
  touch() {
    if (this.all) return;
    this.#recounting ??= setTimeout(() => this.#recount(this.#asked), 5000);
  }

  async #recount(query) {
    try {
      const params = new URLSearchParams(query);
      params.set("limit", "1");
      const { body } = await get("api/runs?" + params);
      if (query === this.#asked) this.total = body.total;
      this.#changed();
    } catch {
      // The feed will say that the server is away.
    }
    this.#recounting = undefined;
  }

  stop() {
    clearTimeout(this.#timer);
    clearTimeout(this.#recounting);
    this.#turn++;
  }

  // more loads the next page.
  more() {
    if (this.next) this.#ask(this.#asked, this.next);
  }

  async #ask(query, after) {
    const turn = ++this.#turn;
    try {
      const params = new URLSearchParams(query);
      params.set("limit", String(perPage));
      if (after) params.set("after", after);
      const { body } = await get("api/runs?" + params);
      if (turn !== this.#turn) return;
      this.#runs.merge(body.runs);
      this.total = body.total;
      this.next = body.next ?? "";
      this.problem = "";
    } catch (error) {
      if (turn !== this.#turn) return;
      if (!after) this.total = 0; // it was of another list
      this.problem = timedOut(error) ? "it did not answer in time" : error.message;
      if (!(error instanceof Refusal)) this.#timer = setTimeout(() => this.#ask(query, after), again);
    }
    this.#changed();
  }
}

// pathOf is the query for the server, which says what makes no sense; empty for all runs.
function pathOf(to) {
  const params = new URLSearchParams();
  for (const [name, parameter] of Object.entries(filters)) {
    let value = to[name];
    if (name === "status" && value) {
      value = [...new Set(value.split(",").map((status) => (status === "waiting" ? "running" : status)))].join(",");
    }
    if (value) params.set(parameter, times.has(name) ? timeOf(value) : value);
  }
  if (to.sort) {
    params.set("sort", to.sort);
    if (to.order === "asc") params.set("order", "asc");
  }
  return params.toString();
}

// picksRest reports whether a run is what the address asks for, apart from its status, its
// text and its calls.
export function picksRest({ program, version, pipeline, tag, class: errorClass, parent, since, until }, run) {
  return (!program || run.program === program) && (!version || run.program_version === version) && (!pipeline || run.pipeline === pipeline) &&
    (!tag || Boolean(run.tags?.includes(tag))) && (!errorClass || run.last_error?.error_class === errorClass) &&
    (!parent || run.parent_run_id === parent) && (!since || parse(run.updated_at) >= parse(timeOf(since))) && (!until || parse(run.updated_at) < parse(timeOf(until)));
}
