// The calls of one run as a tree, with every attempt and every wait, built from the run's records.
// The size of the tree is limited, even if the run is very long.

import * as address from "./address.js";
import { parse } from "./clock.js";
import { fold } from "./loops.js";

const mostCalls = 5000;
const mostAttempts = 60; // per call
const mostLogs = 50; // per call

// A call:
//
//	address, name, kind, nth, branch, entry, parent, children
//	status    running, waiting, completed, failed, interrupted, awaiting or stopped
//	attempts  [{n, start, end, outcome, …, wait: {start, until, end, delay, source}}]
//	dropped   the number of attempts that are no longer kept
//	recalled  how often its recorded outcome was used
//	version   increases with every change to the call or to a call inside it
//	branches  for a group that has begun, the number of its branches
export class CallTree {
  calls = new Map(); // by address, in the order in which they began
  roots = new Set();
  openings = []; // {start, end, outcome, by, message, error, …}: the periods during which the run was open
  forgotten = 0; // calls that are no longer kept
  first = 0; // the time of the oldest loaded record
  end = 0; // the time of the newest record

  // began is the time when the run began, if its first records are not loaded.
  constructor(began) {
    if (began) this.openings.push({ start: began, unseen: true });
  }

  take(record) {
    const time = Date.parse(record.time);
    if (!record.replayed) this.first ||= time;
    if (record.event_type === "run") this.#run(record, time);
    else if (record.address) this.#call(record, time);
    if (!record.replayed) this.end = Math.max(this.end, time);
    if (this.openings.length === 0 && !record.replayed && record.event_type !== "run") this.openings.push({ start: time });
  }

  #run(record, time) {
    const last = this.openings.at(-1);
    if (record.execution_status === "started") {
      if (last && !last.end) this.#stop(last, this.end || time, "lost"); // the process ended without a record
      this.openings.push({ start: time });
      return;
    }
    if (!last) return;
    Object.assign(last, { reason: record.reason, by: record.interrupted_by, message: record.message, error: record.original_error, errorClass: record.error_class });
    // If the run was closed before it was cancelled, its last opening keeps its end. If the run was
    // forked, the opening ended at the newest record.
    this.#stop(last, last.end || (record.reason === "fork" ? this.end : time), record.execution_status);
  }

  // close ends the last opening of a run whose process ended without a record.
  close() {
    const last = this.openings.at(-1);
    if (last && !last.end) this.#stop(last, this.end, "lost");
  }

  // #stop ends an opening, with the attempts and waits of its calls that have not ended.
  #stop(opening, time, outcome) {
    Object.assign(opening, { end: time, outcome });
    for (const call of this.calls.values()) {
      if (call.status !== "running" && call.status !== "waiting") continue;
      if (call.status === "waiting" && outcome === "awaiting") continue; // the run is parked until then
      call.status = "stopped";
      touch(call);
      const attempt = call.attempts.at(-1);
      if (!attempt) continue;
      if (!attempt.end) Object.assign(attempt, { end: time, outcome: outcome === "lost" ? "lost" : "stopped" });
      if (attempt.wait && !attempt.wait.end) Object.assign(attempt.wait, { end: time, cut: true });
    }
  }

  #call(record, time) {
    const call = this.#find(record.address);
    touch(call);
    switch (record.event_type) {
      case "log":
        call.logs.push({ time, severity: record.severity, message: record.message, metadata: record.metadata });
        if (call.logs.length > mostLogs) call.logs.shift();
        return;
      case "question":
        call.questions.push({ id: record.name, text: record.message, time });
        return;
      case "answer":
        for (const q of call.questions) if (q.id === record.name) Object.assign(q, { answer: record.detail, answered: time, by: record.answered_by });
        return;
      case "value":
        return;
    }
    call.kind = record.event_type;
    call.name = record.name || call.name;
    call.tag = record.tag;
    call.branches = record.branches ?? call.branches;
    call.max = record.max_attempts;
    call.input ??= record.input;
    if (record.detail && call.kind !== "compensation") call.output = record.detail; // a compensation has no output
    if (record.cached) call.cached = true;
    if (record.artifact) call.artifact = record.artifact;
    if (record.usage && !record.replayed) add(call.usage, record.usage);
    this[record.execution_status]?.(call, record, time);
    if (!record.replayed) call.end = time;
    call.start ??= this.#startOf(record, time);
  }

  // #startOf returns when a call began, judging by its first loaded record. It returns undefined if
  // earlier records are not loaded and this one does not show when the call began.
  #startOf({ execution_status: status, retry_attempt, execution_time, stage }, time) {
    if (status === "started" || this.openings[0]?.unseen !== true) return time;
    return retry_attempt === 0 && execution_time !== undefined && stage !== "wait" ? time - execution_time * 1000 : undefined;
  }

  // The methods below are named after statuses. Each applies a record with that status.

  started(call, record, time) {
    const last = call.attempts.at(-1);
    // After the run was opened again, the call waited for the rest of its delay.
    if (last?.wait && (!last.wait.end || last.wait.cut)) last.wait.end = time;
    call.status = "running";
    if (record.reason === "in_doubt") call.inDoubt = true; // the outcome of the compensated call is not known
    call.attempts.push({ n: record.retry_attempt, start: time, outcome: "running", again: last?.n === record.retry_attempt });
    if (call.attempts.length > mostAttempts) {
      call.attempts.shift();
      call.dropped++;
    }
  }

  completed(call, record, time) {
    this.#ended(call, record, time, "completed");
    call.status = "completed";
  }

  failed(call, record, time) {
    this.#ended(call, record, time, record.will_retry ? "retried" : "failed");
    call.status = record.will_retry ? "waiting" : "failed";
    if (record.will_retry) return;
    call.reason = record.reason;
    call.failedAt = record.seq;
  }

  retrying(call, record, time) {
    call.status = "waiting";
    const last = call.attempts.at(-1) ?? this.#unseen(call, record.retry_attempt - 1);
    last.wait = { start: time, until: parse(record.next_attempt_at), delay: record.retry_delay * 1000, source: record.delay_source };
  }

  interrupted(call, record, time) {
    const last = call.attempts.at(-1);
    if (last?.wait && !last.wait.end) last.wait.end = time;
    if (!last || !last.end) this.#ended(call, record, time, "interrupted");
    call.status = "interrupted";
    call.reason = record.reason;
    call.interruptedBy = record.interrupted_by;
    call.message = record.message;
  }

  awaiting(call, record, time) {
    if (record.stage === "wait") return this.#parked(call, record, time);
    this.#ended(call, record, time, "awaiting");
    call.status = "awaiting";
    call.awaits = record.awaits;
  }

  // #parked applies the record of a call that was parked. Either the call was already waiting for
  // its next attempt, or an interceptor parked it before an attempt.
  #parked(call, record, time) {
    if (call.status !== "running") return;
    this.#ended(call, record, time, "paced");
    call.status = "waiting";
    call.attempts.at(-1).wait = { start: time, until: parse(record.next_attempt_at), delay: record.retry_delay * 1000, source: "interceptor" };
  }

  recovered(call, record) {
    call.recalled++;
    if (call.attempts.length > 0) return;
    call.status = record.original_error ? "failed" : "completed";
    if (record.original_error) call.error = record.original_error;
  }

  #ended(call, record, time, outcome) {
    let attempt = call.attempts.at(-1);
    if (!attempt || attempt.end) attempt = this.#unseen(call, record.retry_attempt, this.#beginOf(record, time, attempt));
    Object.assign(attempt, {
      end: time, outcome, stage: record.stage, seconds: record.execution_time,
      error: record.original_error, errorClass: record.error_class, usage: record.usage, reason: record.reason, attributes: record.metadata,
    });
    if (record.original_error && outcome !== "awaiting") Object.assign(call, { error: record.original_error, errorClass: record.error_class });
    else if (outcome === "completed") call.error = undefined;
  }

  // #beginOf returns when the attempt of a record began, if the attempt's started record is not
  // loaded. It returns undefined if the attempt began before the first loaded record.
  #beginOf({ retry_attempt, execution_time, stage }, time, last) {
    if (execution_time !== undefined) return time - execution_time * 1000;
    if (last?.n === retry_attempt) return last.start; // the attempt is in doubt: its process ended, and the attempt was not begun again
    return this.openings[0]?.unseen && stage !== "entry" ? undefined : time;
  }

  // #unseen adds an attempt that has no started record of its own: either that record is not
  // loaded, or it belongs to an earlier attempt that a crash ended. start is undefined if it is not
  // known.
  #unseen(call, n, start) {
    const attempt = { n: Math.max(0, n), start, end: start, outcome: "retried" };
    call.attempts.push(attempt);
    return attempt;
  }

  // #find returns the call at an address. If that call or the calls around it are new, #find
  // creates them.
  #find(path) {
    let call = this.calls.get(path);
    if (call) return call;
    const a = address.parse(path);
    call = {
      address: path, name: a.name, kind: a.group ? "group" : "agent_call", nth: a.nth, branch: a.branch, entry: a.entry, depth: a.depth,
      children: new Set(), version: 0, status: "running", attempts: [], dropped: 0, recalled: 0, logs: [], questions: [],
      usage: { input_tokens: 0, output_tokens: 0, cost: 0, estimated: false },
    };
    if (a.parent) {
      call.parent = this.#find(a.parent);
      call.parent.children.add(call);
    } else {
      this.roots.add(call);
    }
    this.calls.set(path, call);
    if (this.calls.size > mostCalls) this.#forget();
    return call;
  }

  // #forget removes the oldest calls, apart from those that have not ended or contain other calls.
  #forget() {
    for (const call of this.calls.values()) {
      if (this.calls.size <= mostCalls * 0.9) return;
      if (call.children.size > 0 || call.status === "running" || call.status === "waiting") continue;
      (call.parent?.children ?? this.roots).delete(call);
      this.calls.delete(call.address);
      this.forgotten++;
    }
  }

  // rows returns the calls that match and the calls around them, without the calls inside collapsed
  // calls, in the order of the tree. A group of similar calls is represented by one line. If loops
  // contains the line's address, the calls of the group follow it. If loops is undefined, there are
  // no such lines.
  rows(matches, collapsed, loops) {
    const rows = [];
    const visit = (calls) => {
      let any = false;
      for (const call of loops ? fold(calls) : calls) {
        const at = rows.length;
        if (call.loop) {
          rows.push(call);
          any = true;
          if (loops.has(call.address)) visitAll(call.loop);
          continue;
        }
        rows.push(call);
        const inside = visit(call.children);
        const own = matches(call);
        if (!own && !inside) rows.length = at;
        else if (collapsed.has(call.address)) rows.length = at + 1;
        any ||= own || inside;
      }
      return any;
    };
    const visitAll = (calls) => {
      for (const call of calls) {
        rows.push(call);
        if (!collapsed.has(call.address)) visit(call.children);
      }
    };
    visit(this.roots);
    return rows;
  }
}

// origin returns the call whose failure made the run fail. It starts with the last root call that
// failed, and at each level goes to the child that failed first.
export function origin(tree) {
  let found;
  let calls = [...tree.roots].filter((call) => call.status === "failed").slice(-1);
  while (calls.length > 0) {
    found = calls.reduce((a, b) => ((b.failedAt ?? Infinity) < (a.failedAt ?? Infinity) ? b : a));
    calls = [...found.children].filter((call) => call.status === "failed");
  }
  return found;
}

// progressOf returns the number of a group's branches that have completed, and the number of all
// its branches.
export function progressOf(group) {
  let done = 0;
  for (const child of group.children) if (child.status === "completed") done++;
  return { done, of: Math.max(group.branches ?? 0, group.children.size) };
}

export const troubled = (call) =>
  call.attempts.length + call.dropped > 1 || ["failed", "waiting", "interrupted", "awaiting", "stopped"].includes(call.status);

function touch(call) {
  for (let c = call; c; c = c.parent) c.version++;
}

function add(sum, usage) {
  for (const key of ["input_tokens", "output_tokens", "cost"]) sum[key] += usage[key] ?? 0;
  sum.estimated ||= usage.estimated ?? false;
}
