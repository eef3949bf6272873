// What a run is at after a record: the same as the server's RunState, from the
// same records (streamer/view.go). A run begins as the server has sent it, and
// each record takes it a step further.

import * as address from "./address.js";
import { parse } from "./clock.js";
import { words } from "./format.js";

// What take says of a record.
export const taken = "taken";
export const old = "old"; // the run has it already
export const hole = "hole"; // records before it are missing: the run is to be asked for
export const reopened = "reopened"; // a crash has taken records that the run has: likewise

// begin is a run of which nothing is known but its name.
export function begin(id) {
  return adopt({ run_id: id, status: "running", created_at: "", updated_at: "", last_seq: 0, calls: {}, usage: {} });
}

const counted = ["started", "completed", "failed", "active", "waiting", "attempts", "retries", "restored"];

// adopt makes a run of a RunState, and keeps it.
export function adopt(state) {
  const run = { ...state, active: new Map(), stopped: new Set() };
  run.calls = Object.fromEntries(counted.map((name) => [name, state.calls?.[name] ?? 0]));
  run.usage = { input_tokens: 0, output_tokens: 0, cost: 0, estimated: false, ...state.usage };
  run.questions = [...(state.questions ?? [])];
  const listed = [...(state.around ?? []), ...(state.current ? [state.current] : []), ...(state.waiting ?? [])];
  for (const call of listed) run.active.set(call.address, call);
  const counts = listed.filter((call) => !isParallel(call));
  run.unlisted = { active: run.calls.active - counts.length, waiting: run.calls.waiting - counts.filter((call) => call.execution_status === "retrying").length };
  delete run.current;
  delete run.around;
  delete run.waiting;
  return run;
}

// isParallel reports whether a record or a call is of a group, or a branch of
// one. They hold calls and are not counted as such.
const isParallel = ({ event_type }) => event_type === "group" || event_type === "branch";

export function take(run, record) {
  if (record.execution_status === "recovered" && !isParallel(record)) run.calls.restored++;
  if (record.replayed || !record.seq) return taken;
  if (record.seq <= run.last_seq) {
    const opens = record.event_type === "run" && record.execution_status === "started";
    return opens && parse(record.time) > parse(run.updated_at) ? reopened : old;
  }
  if (record.seq > run.last_seq + 1) return hole;
  if (run.last_seq === 0) run.created_at = record.time;
  run.last_seq = record.seq;
  run.updated_at = record.time;
  switch (record.event_type) {
    case "run":
      ofRun(run, record);
      break;
    case "tool_call":
    case "llm_call":
    case "agent_call":
    case "step":
    case "group":
    case "branch":
    case "compensation":
      ofCall(run, record);
      break;
    case "question":
      if (record.asks === "time") break; // nobody is to answer it
      run.questions = run.questions.filter((question) => question.id !== record.name); // one that is asked again
      run.questions.push({
        id: record.name, asks: record.asks, message: record.message ?? "", address: record.address, asked_at: record.time, refused: record.original_error,
        schema: record.schema, in_doubt: record.in_doubt,
      });
      break;
    case "answer":
      run.questions = run.questions.filter((question) => question.id !== record.name);
  }
  return taken;
}

const ends = { completed: "completed", failed: "failed", awaiting: "paused", interrupted: "interrupted", cancelled: "cancelled" };

// ofRun: what calls were in the middle of is over when the run begins or ends.
function ofRun(run, record) {
  for (const path of run.active.keys()) run.stopped.add(path);
  run.active.clear();
  run.calls.active = run.calls.waiting = 0;
  run.unlisted = { active: 0, waiting: 0 };
  delete run.stop;
  if (record.execution_status === "started") {
    run.status = "running";
    run.openings = (run.openings ?? 0) + 1; // since the page knows the run
    run.pipeline = record.name || run.pipeline;
    run.description = record.message || run.description;
  } else {
    run.status = ends[record.execution_status] ?? run.status;
    if (run.status === "cancelled") run.questions = []; // nobody waits for an answer any more
    if (run.status !== "paused" && record.reason && record.execution_status !== "failed") {
      run.stop = { reason: record.reason, by: record.interrupted_by, message: record.message };
    }
  }
}

function ofCall(run, record) {
  const status = record.execution_status;
  const ends = status === "completed" || (status === "failed" && !record.will_retry) || status === "interrupted";
  if (!isParallel(record)) countCall(run, record, ends);
  if (record.usage) {
    run.usage.input_tokens += record.usage.input_tokens ?? 0;
    run.usage.output_tokens += record.usage.output_tokens ?? 0;
    run.usage.cost += record.usage.cost ?? 0;
    run.usage.estimated ||= record.usage.estimated ?? false;
  }
  if (status === "started") run.stopped.delete(record.address);
  if (status === "failed") {
    const { address, name, error_class, original_error, reason, retry_attempt, will_retry = false, time } = record;
    run.last_error = { address, name, error_class, original_error, reason, retry_attempt, will_retry, time };
  }
  if (ends) {
    run.active.delete(record.address);
    if (status === "interrupted") run.stopped.add(record.address);
    return;
  }
  run.active.set(record.address, {
    address: record.address, name: record.name, event_type: record.event_type, execution_status: status,
    retry_attempt: record.retry_attempt, max_attempts: record.max_attempts, since: record.time,
    retry_delay: record.retry_delay, delay_source: record.delay_source, next_attempt_at: record.next_attempt_at,
    original_error: record.original_error, error_class: record.error_class,
  });
}

// countCall counts what a record says of a call. One that stopped with the run
// goes on.
function countCall(run, record, ends) {
  const { calls } = run;
  const before = run.active.get(record.address) ?? unlisted(run, record);
  if (before?.execution_status === "retrying") calls.waiting--;
  if (before) calls.active--;
  if (!ends) calls.active++;
  switch (record.execution_status) {
    case "started":
      calls.attempts++;
      if (record.retry_attempt > 0) calls.retries++;
      else if (!before && !run.stopped.has(record.address)) calls.started++;
      break;
    case "retrying":
      calls.waiting++;
      break;
    case "completed":
      calls.completed++;
      break;
    case "failed":
      if (!record.will_retry) calls.failed++;
  }
}

const unbegun = ["definition", "entry", "precondition"]; // stages before the first attempt

// unlisted finds out whether a call that is heard of for the first time is one
// of those that the server had counted and not listed: of what runs it names
// one call, and of what waits fifty.
function unlisted(run, record) {
  const left = run.unlisted;
  if (record.execution_status === "started") {
    if (record.retry_attempt === 0 || left.waiting === 0) return undefined;
    left.waiting--;
    left.active--;
    return { execution_status: "retrying" };
  }
  if (unbegun.includes(record.stage) || left.active === left.waiting) return undefined;
  left.active--;
  return { execution_status: "started" };
}

// current is the innermost call that runs, and of those the latest.
export function current(run) {
  let found;
  for (const call of run.active.values()) {
    if (call.execution_status === "retrying") continue;
    if (!found || isInner(call, found)) found = call;
  }
  return found;
}

function isInner(a, b) {
  const deeper = address.parse(a.address).depth - address.parse(b.address).depth;
  return deeper !== 0 ? deeper > 0 : parse(a.since) >= parse(b.since);
}

// waiting is the calls that wait to try again, the next first.
export function waiting(run) {
  const calls = [];
  if (run.calls.waiting > 0) {
    for (const call of run.active.values()) {
      if (call.execution_status === "retrying") calls.push(call);
    }
  }
  return calls.sort((a, b) => parse(a.next_attempt_at) - parse(b.next_attempt_at));
}

// shown is the status that people are shown.
export function shown(run) {
  return run.status === "running" && run.calls.waiting > 0 ? "waiting" : run.status;
}

// isSettled reports whether nothing can go on with a run.
export const isSettled = (run) => ["completed", "failed", "cancelled"].includes(run.status);

// stopText says who or what stopped a run; nothing for one that goes on or has
// its outcome.
export function stopText({ status, stop }) {
  if (status !== "interrupted" && status !== "cancelled") return "";
  if (!stop || stop.reason === "crash") return "Interrupted by a crash: its process ended without closing it.";
  const what = status === "cancelled" ? "Cancelled for good" : stop.reason === "shutdown" ? "Interrupted by a shutdown" : "Interrupted";
  const text = what + (stop.by ? " by " + stop.by : "") + (stop.message ? ": " + stop.message : "");
  return ["user", "cancel", "shutdown"].includes(stop.reason) ? text : `${text} (${words(stop.reason)})`;
}
