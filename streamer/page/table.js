// The runs that match the filters in the address: by status, text, program, version, tag,
// error class and time, in the chosen order, page by page.

import { parse } from "./clock.js";
import { get, Refusal, timedOut } from "./request.js";
import { isOver, order } from "./runs.js";

const perPage = 200;
const patience = 250; // ms between the last key press and the search
const again = 3000; // ms after which a search without a response is repeated

// The filters in the address, and the names of their parameters in requests.
const filters = { status: "status", q: "text", program: "program", version: "version", pipeline: "pipeline", tag: "tag", class: "class", parent: "parent", since: "since", until: "until" };

// A time without a time zone is local time: 2026-01-02 or 2026-01-02 15:04.
const local = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?$/;
export function timeOf(text) {
  const [, day, time = "00:00"] = local.exec(text.trim()) ?? [];
  const at = new Date(`${day}T${time}`);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
}
const times = new Set(["since", "until"]);

// sorts contains the functions that return the values by which runs can be sorted.
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

// orderOf returns a function that compares two runs in the order that the address specifies. By
// default, runs that continue come before those that have stopped.
export function orderOf({ sort, order: direction }, now) {
  const value = sorts[sort];
  if (!value) return order;
  const sign = direction === "asc" ? 1 : -1;
  return (a, b) => sign * (value(a, now) - value(b, now)) || (a.run_id < b.run_id ? -1 : 1);
}

export class Table {
  total = 0; // the number of matching runs
  next = ""; // the cursor of the next page; empty after the last page
  problem = ""; // why the last search failed
  exact = true; // the server supports all filters in the address
  #runs;
  #changed;
  #asked = ""; // the query of the last request
  #timer;
  #recounting;
  #turn = 0;

  constructor(runs, changed) {
    this.#runs = runs;
    this.#changed = changed;
  }

  // load takes the total from a snapshot of all runs.
  load(body) {
    if (this.#asked !== "") return this.#ask(this.#asked);
    this.total = body.total ?? body.runs.length;
    this.next = body.next ?? "";
  }

  // show requests the runs that match the address if its filters or its order have changed.
  show(to) {
    const path = pathOf(to);
    this.exact = !to.kind && !(to.status ?? "").split(",").some((status) => status === "waiting" || status === "paused");
    if (path === this.#asked) return;
    this.#asked = path;
    this.next = ""; // the old value belongs to the previous list
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(path), patience);
  }

  // all reports whether the address asks for all runs, in the default order.
  get all() {
    return this.#asked === "";
  }

  // touch must be called when a run has begun, has ended or was deleted, because the total may have
  // changed. The new total is requested at most once every five seconds.
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
      // The feed will show that the server cannot be reached.
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
      if (!after) this.total = 0; // the old total belongs to the previous list
      this.problem = timedOut(error) ? "the server did not answer in time" : error.message;
      if (!(error instanceof Refusal)) this.#timer = setTimeout(() => this.#ask(query, after), again);
    }
    this.#changed();
  }
}

// pathOf returns the query for the server, which is "" for all runs. The server checks the values
// in it.
function pathOf(to) {
  const params = new URLSearchParams();
  for (const [name, parameter] of Object.entries(filters)) {
    let value = to[name];
    if (name === "status" && value) {
      value = [...new Set(value.split(",").flatMap((status) => (status === "waiting" ? ["running", "paused"] : status)))].join(",");
    }
    if (value) params.set(parameter, times.has(name) ? timeOf(value) : value);
  }
  if (to.sort) {
    params.set("sort", to.sort);
    if (to.order === "asc") params.set("order", "asc");
  }
  return params.toString();
}

// picksRest reports whether a run matches the filters in the address, except those for status, text
// and kind of call.
export function picksRest({ program, version, pipeline, tag, class: errorClass, parent, since, until }, run) {
  return (!program || run.program === program) && (!version || run.program_version === version) && (!pipeline || run.pipeline === pipeline) &&
    (!tag || Boolean(run.tags?.includes(tag))) && (!errorClass || run.last_error?.error_class === errorClass) &&
    (!parent || run.parent_run_id === parent) && (!since || parse(run.updated_at) >= parse(timeOf(since))) && (!until || parse(run.updated_at) < parse(timeOf(until)));
}
