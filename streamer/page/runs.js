// All runs that the page knows. Records keep them up to date.

import { parse } from "./clock.js";
import * as fold from "./fold.js";
import { get, runPath } from "./request.js";
import * as who from "./who.js";

const most = 1000; // the number of runs that are kept
const mostHeld = 1000; // the number of records that are kept until their run's state is known

export class Runs {
  all = new Map(); // by run ID
  more = false; // the server has older runs
  can = { interrupt: false, cancel: false, answer: false };
  rest = {}; // the number of runs that are not in all, by status
  #changed;
  #asked = new Set(); // IDs of runs whose counts have been requested
  #held = new Map(); // records of runs whose state is being requested, by run ID
  #asking = false;
  #recounting;

  constructor(changed) {
    this.#changed = changed;
  }

  load(body) {
    this.all = new Map(body.runs.map((state) => [state.run_id, fold.adopt(state)]));
    this.more = Boolean(body.next);
    this.can = body.can;
    who.learn(body.can);
    this.#held.clear();
    this.#asked.clear();
    this.#count(body.counts);
    this.#changed();
  }

  // #count stores the numbers of runs by status.
  #count(counts) {
    this.rest = { ...counts };
    for (const { status } of this.all.values()) this.rest[status] = Math.max(0, (this.rest[status] ?? 0) - 1);
  }

  // complete requests the counts of those of the given runs whose counts are not known, once for
  // each run. Afterwards, records keep the counts up to date.
  complete(ids) {
    for (const id of ids) {
      if (!this.isUnasked(this.all.get(id))) continue;
      this.#asked.add(id);
      this.#ask(id);
    }
  }

  // isUnasked reports whether a run's counts are missing and were not requested.
  isUnasked(run) {
    return Boolean(run?.partial) && !this.#held.has(run.run_id) && !this.#asked.has(run.run_id);
  }

  // merge adds new runs, and updates known runs whose state is newer.
  merge(states) {
    for (const state of states) {
      const run = this.all.get(state.run_id);
      if (!run) this.rest[state.status] = Math.max(0, (this.rest[state.status] ?? 0) - 1);
      else if (run.last_seq > state.last_seq || (run.last_seq === state.last_seq && !run.partial)) continue;
      this.all.set(state.run_id, fold.adopt(state));
    }
  }

  // isPending reports whether a run's counts are missing but are being requested or will be.
  isPending(run) {
    return Boolean(run.partial) && (!this.#asked.has(run.run_id) || this.#held.has(run.run_id));
  }

  // behind reports whether a snapshot contains records that have not reached these runs.
  behind(body) {
    return body.runs.some((state) => state.last_seq > (this.all.get(state.run_id)?.last_seq ?? 0));
  }

  // remove removes a run that was deleted.
  remove(id) {
    this.#held.delete(id);
    if (this.all.delete(id)) this.#changed();
    else this.#recount(); // the run was counted in rest
  }

  // askToStop records that a run was asked to stop.
  askToStop(id, stopping) {
    const run = this.all.get(id);
    if (run) fold.askToStop(run, stopping);
    this.#changed();
  }

  // renew requests a run that has the ID of a deleted run.
  renew(id) {
    if (this.all.has(id)) this.#ask(id);
    else this.#recount();
  }

  take(record) {
    const id = record.run_id;
    const held = this.#held.get(id);
    if (held) {
      if (held.length < mostHeld) held.push(record);
      return;
    }
    let run = this.all.get(id);
    if (!run) {
      this.#add((run = fold.begin(id)));
      if (record.seq > 1 && this.more) this.#recount(); // the run may be counted in rest
    }
    const result = fold.take(run, record);
    if (result === fold.hole || result === fold.reopened) this.#ask(id, record);
    else if (result === fold.taken) this.#changed();
  }

  // #recount requests the numbers of runs by status, at most once every five seconds.
  #recount() {
    this.#recounting ??= setTimeout(async () => {
      try {
        this.#count((await get("api/runs?limit=1")).body.counts);
        this.#changed();
      } catch {
        // The feed will show that the server cannot be reached.
      }
      this.#recounting = undefined;
    }, 5000);
  }

  #add(run) {
    this.all.set(run.run_id, run);
    if (this.all.size <= most + 100) return;
    const ended = [...this.all.values()].filter((run) => run.status !== "running" && run.status !== "paused");
    ended.sort((a, b) => parse(a.updated_at) - parse(b.updated_at));
    for (const { run_id, status } of ended.slice(0, this.all.size - most)) {
      this.all.delete(run_id);
      this.rest[status] = (this.rest[status] ?? 0) + 1;
    }
    this.more = true;
  }

  // #ask requests the state of a run. It is needed if records are missing that other processes
  // wrote or that are older than the page.
  async #ask(id, ...records) {
    this.#held.set(id, records);
    if (this.#asking) return;
    this.#asking = true;
    while (this.#held.size > 0) {
      const [next] = this.#held.keys();
      let state;
      try {
        ({ run: state } = (await get(runPath(next) + "?limit=1")).body);
      } catch {
        // The records are all that is known.
      }
      const records = this.#held.get(next);
      if (!records) continue; // everything was reloaded meanwhile
      this.#held.delete(next);
      this.#replace(next, state, records);
    }
    this.#asking = false;
  }

  #replace(id, state, records) {
    let run = state ? fold.adopt(state) : (this.all.get(id) ?? fold.begin(id));
    for (const record of records) {
      if (fold.take(run, record) !== fold.hole) continue;
      run.last_seq = record.seq - 1; // no process has the records before this one
      fold.take(run, record);
    }
    this.all.set(id, run);
    this.#changed();
  }
}

// known reports whether the counts of a run include all its records.
export const known = (run) => !run.partial;

// order puts the runs that continue before those that have stopped. In both groups the newest come
// first: those that continue by when they began, and those that have stopped by when they stopped.
// Rows therefore keep their positions.
export function order(a, b) {
  const ended = isOver(a) - isOver(b);
  if (ended !== 0) return ended;
  const by = isOver(a) ? "updated_at" : "created_at";
  return parse(b[by]) - parse(a[by]) || (a.run_id < b.run_id ? -1 : 1);
}

export const isOver = (run) => !goOn.has(run.status);
const goOn = new Set(["queued", "running", "paused"]);

// matches reports whether a run matches a search.
export function matches(run, text) {
  if (!text) return true;
  const has = (part) => part !== undefined && part.toLowerCase().includes(text);
  if (has(run.run_id) || has(run.description) || has(run.pipeline) || run.tags?.some(has)) return true;
  const failed = run.last_error;
  if (failed && (has(failed.name) || has(failed.error_class) || has(failed.original_error))) return true;
  if (run.questions.some((question) => has(question.message))) return true;
  for (const call of run.open.values()) if (callMatches(call, text)) return true;
  return false;
}

export function callMatches(call, text) {
  const has = (part) => part !== undefined && part.toLowerCase().includes(text);
  return has(call.name) || has(call.address) || has(call.error_class) || has(call.original_error) || has(call.delay_source);
}
