// Computes the state of a run from its records, in the same way as the server computes its RunState
// (streamer/view.go). A run begins with the state that the server sent, and take applies further
// records to it one by one.

import * as address from "./address.js";
import { parse } from "./clock.js";
import { words } from "./format.js";

// The results of take.
export const taken = "taken";
export const old = "old"; // the record has already been applied
export const hole = "hole"; // earlier records are missing: request the run's state
export const reopened = "reopened"; // a crash lost records that had been applied: request the run's state

// begin returns a run of which only the ID is known.
export function begin(id) {
  return adopt({ run_id: id, status: "running", created_at: "", updated_at: "", last_seq: 0, calls: {}, usage: {} });
}

const counted = ["started", "active", "waiting", "asking", "stopped", "completed", "failed", "attempts", "retries", "repeats", "restored"];

// adopt returns a run with the given RunState. open contains, by address, the calls that the server
// lists, none of which have ended. unlisted counts the calls that the server has counted but not
// listed.
export function adopt(state) {
  const run = { ...state, open: new Map(), moot: new Map(), dues: [state.due_at], joined: state.last_seq > 0 };
  run.calls = Object.fromEntries(counted.map((name) => [name, state.calls?.[name] ?? 0]));
  run.usage = { input_tokens: 0, output_tokens: 0, cost: 0, estimated: false, ...state.usage };
  run.questions = [...(state.questions ?? [])];
  const { active, waiting, asking, stopped } = run.calls;
  run.unlisted = { running: active - waiting, waiting, asking, stopped };
  for (const call of [...(state.around ?? []), ...(state.current ? [state.current] : []), ...(state.waiting ?? []), ...(state.others ?? [])]) {
    run.open.set(call.address, { ...call, suspended: call.execution_status === "awaiting" });
    if (!isParallel(call)) run.unlisted[call.state]--;
  }
  delete run.current;
  delete run.around;
  delete run.waiting;
  delete run.others;
  return run;
}

// isParallel reports whether a record or a call belongs to a group or a branch. Groups and branches
// only contain calls, and are not counted themselves.
const isParallel = ({ event_type }) => event_type === "group" || event_type === "branch";

export function take(run, record) {
  if (record.execution_status === "recovered") {
    if (!isParallel(record)) run.calls.restored++;
    return taken;
  }
  if (record.replayed || !record.seq) return taken;
  if (record.seq <= run.last_seq) {
    const opens = record.event_type === "run" && record.execution_status === "started";
    return opens && parse(record.time) > parse(run.updated_at) ? reopened : old;
  }
  if (record.seq > run.last_seq + 1 || asksWhatIsNotKnown(run, record)) return hole;
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
      run.moot.delete(record.name);
      run.questions = run.questions.filter((question) => question.id !== record.name); // a question that is asked again replaces the earlier one
      run.dues.push(record.due_at);
      if (waitsForNobody(record.awaits)) break; // no person needs to answer the question
      run.questions.push({
        id: record.name, awaits: record.awaits, message: record.message ?? "", redacted: record.redacted, address: record.address, asked_at: record.time, due_at: record.due_at, refused: record.original_error,
        schema: record.schema, in_doubt: record.in_doubt,
      });
      break;
    case "answer":
      run.moot.delete(record.name);
      run.questions = run.questions.filter((question) => question.id !== record.name);
  }
  return taken;
}

const ends = { completed: "completed", failed: "failed", awaiting: "paused", interrupted: "interrupted", cancelled: "cancelled" };

// waitsForNobody reports whether a call waits for a time or a signal, rather than for a person.
function waitsForNobody(awaits) {
  return awaits === "time" || awaits === "signal";
}

// asksWhatIsNotKnown reports whether a call is waiting again for a question that was already closed
// when the page loaded the run.
function asksWhatIsNotKnown(run, { execution_status, event_type, awaits, question }) {
  if (!run.joined || execution_status !== "awaiting" || event_type === "question" || !question || waitsForNobody(awaits)) return false;
  return !run.moot.has(question) && !run.questions.some(({ id }) => id === question);
}

// count adds n to the counts of calls in the same state as the given call: 1 adds the call, and -1
// removes it.
function count({ calls }, call, n) {
  if (isParallel(call) || !call.state) return;
  calls.started += n;
  if (call.state === "running" || call.state === "waiting") calls.active += n;
  if (call.state !== "running") calls[call.state] += n;
}

// ofRun applies a record of the run itself. When the run begins or ends, the calls that were
// running are stopped. Suspended calls continue to wait, unless the run was cancelled.
function ofRun(run, record) {
  const cancelled = record.execution_status === "cancelled";
  for (const call of run.open.values()) {
    const waits = call.state === "waiting" || call.state === "asking";
    if (call.state !== "running" && !(waits && (!call.suspended || cancelled))) continue;
    count(run, call, -1);
    call.state = "stopped";
    count(run, call, 1);
  }
  const { unlisted } = run;
  for (const state of cancelled ? ["running", "waiting", "asking"] : ["running"]) {
    const n = unlisted[state];
    count(run, { state }, -n);
    count(run, { state: "stopped" }, n);
    unlisted.stopped += n;
    unlisted[state] = 0;
  }
  delete run.stop;
  if (run.stopping?.reason !== "cancel") delete run.stopping; // a cancel stays until the run has ended
  if (record.execution_status === "started") {
    run.status = "running";
    run.openings = (run.openings ?? 0) + 1; // since the page loaded the run
    run.pipeline = record.name || run.pipeline;
    run.description = record.message || run.description;
  } else {
    run.status = ends[record.execution_status] ?? run.status;
    if (run.status === "paused") run.due_at = dueOf(run, record.time);
    if (run.status === "cancelled") close(run, () => true); // no call waits for an answer now
    if (isSettled(run)) delete run.stopping;
    if (run.status !== "paused" && record.reason && record.execution_status !== "failed") {
      run.stop = { reason: record.reason, by: record.interrupted_by, message: record.message };
    }
  }
}

// dueOf returns when a run that was paused at the given time will continue by itself, as far as the
// page knows: the time at which the first of its calls, sleeps and questions is due.
function dueOf(run, paused) {
  const isLater = (due) => parse(due) > parse(paused);
  run.dues = run.dues.filter(isLater);
  const nexts = [...run.open.values()].map((call) => (call.state === "waiting" ? call.next_attempt_at : undefined));
  return [...run.dues, ...nexts.filter(isLater)].sort((a, b) => parse(a) - parse(b))[0];
}

function ofCall(run, record) {
  const status = record.execution_status;
  const before = run.open.get(record.address) ?? unlisted(run, record);
  count(run, before, -1);
  if (!isParallel(record)) countAttempts(run.calls, before, record);
  if (record.usage) {
    run.usage.input_tokens += record.usage.input_tokens ?? 0;
    run.usage.output_tokens += record.usage.output_tokens ?? 0;
    run.usage.cost += record.usage.cost ?? 0;
    run.usage.estimated ||= record.usage.estimated ?? false;
  }
  if (status === "failed") {
    const { address, name, error_class, original_error, reason, retry_attempt, will_retry = false, time } = record;
    run.last_error = { address, name, error_class, original_error, reason, retry_attempt, will_retry, time };
  } else if (run.last_error?.address === record.address && (status === "completed" || record.replaces)) {
    delete run.last_error; // the call has completed or is being repeated
  }
  const call = {
    address: record.address, name: record.name, event_type: record.event_type, execution_status: status, seq: record.seq,
    state: stateOf(record) ?? before.state, suspended: status === "awaiting", attempts: before.attempts,
    retry_attempt: record.retry_attempt, max_attempts: record.max_attempts, since: record.time,
    retry_delay: record.retry_delay, delay_source: record.delay_source, next_attempt_at: record.next_attempt_at,
    original_error: record.original_error, error_class: status === "awaiting" ? undefined : record.error_class, // a suspended call has not failed
  };
  count(run, call, 1);
  if (call.state === "completed" || call.state === "failed") {
    run.open.delete(record.address);
    close(run, (question) => question.address === record.address || isInside(question.address, record.address));
    return;
  }
  run.open.set(record.address, call);
  if (record.will_retry) close(run, (question) => isInsideAttempt(question.address, record));
  if (status === "awaiting" && run.moot.has(record.question)) {
    run.questions.push(run.moot.get(record.question)); // a call is waiting for the question again
    run.questions.sort((a, b) => parse(a.asked_at) - parse(b.asked_at));
    run.moot.delete(record.question);
  }
}

function stateOf(record) {
  switch (record.execution_status) {
    case "started":
      return "running";
    case "retrying":
      return "waiting";
    case "completed":
      return "completed";
    case "failed":
      return record.will_retry ? "waiting" : "failed";
    case "interrupted":
      return "stopped";
    case "awaiting":
      return record.awaits === "time" ? "waiting" : "asking";
  }
  return undefined;
}

// countAttempts counts an attempt. An attempt with a new number counts as a retry, unless it is the
// first one. Any other attempt counts as a repeat.
function countAttempts(calls, call, record) {
  const status = record.execution_status;
  const started = status === "started";
  if (started && record.retry_attempt < call.attempts) {
    calls.attempts++;
    calls.repeats++;
    return;
  }
  const stopped = status === "interrupted" || status === "awaiting";
  const begun = started || status === "failed" || status === "completed" || (stopped && record.stage === "handler");
  const number = begun ? (unbegun.includes(record.stage) ? record.retry_attempt : record.retry_attempt + 1) : 0;
  if (number <= call.attempts) return;
  calls.attempts += number - call.attempts;
  calls.retries += number - Math.max(call.attempts, 1);
  call.attempts = number;
}

const unbegun = ["definition", "entry", "precondition", "wait"]; // stages before an attempt

// unlisted returns the previous state of a call that the page has not seen yet. Such a call either
// replaces its outcome, is new, or was counted but not listed by the server, which lists at most
// fifty calls.
function unlisted(run, record) {
  const call = { event_type: record.event_type, attempts: 0 };
  if (isParallel(record)) return call;
  if (record.replaces) {
    return { ...call, state: record.replaces.execution_status, attempts: record.replaces.attempts };
  }
  const left = run.unlisted;
  const take = (state) => {
    left[state]--;
    return { ...call, state, attempts: Math.max(1, record.retry_attempt) };
  };
  if (record.execution_status !== "started") {
    if (unbegun.includes(record.stage) || left.running === 0) return call;
    return { ...take("running"), attempts: record.retry_attempt + 1 };
  }
  if (record.retry_attempt > 0 && left.waiting > 0) return take("waiting");
  for (const state of ["stopped", "asking"]) {
    if (left[state] > 0 && (run.openings ?? 0) > 0) return { ...take(state), attempts: record.retry_attempt + 1 };
  }
  return call;
}

// close closes the questions for which isOver returns true: their calls have ended, and nobody
// would use an answer.
function close(run, isOver) {
  if (run.questions.length === 0) return;
  for (const question of run.questions) {
    if (isOver(question)) run.moot.set(question.id, question);
  }
  run.questions = run.questions.filter((question) => !run.moot.has(question.id));
}

const isInside = (path, around) => path.startsWith(around + "/") || path.startsWith(around + "@");

function isInsideAttempt(path, { address, retry_attempt }) {
  return path.startsWith(retry_attempt === 0 ? address + "/" : `${address}@${retry_attempt + 1}/`);
}

// current returns the innermost running call. If there are several, it returns the latest.
export function current(run) {
  let found;
  for (const call of run.open.values()) {
    if (call.state !== "running") continue;
    if (!found || isInner(call, found)) found = call;
  }
  return found;
}

function isInner(a, b) {
  const deeper = address.parse(a.address).depth - address.parse(b.address).depth;
  return deeper !== 0 ? deeper > 0 : a.seq >= b.seq;
}

// waiting returns the calls that wait for a time, ordered by when they are due.
export function waiting(run) {
  const calls = [];
  if (run.calls.waiting > 0) {
    for (const call of run.open.values()) {
      if (call.state === "waiting") calls.push(call);
    }
  }
  const due = (call) => (call.next_attempt_at ? parse(call.next_attempt_at) : Infinity);
  return calls.sort((a, b) => (due(a) === due(b) ? 0 : due(a) - due(b)));
}

// shown returns the status that the page shows. A run that only waits for a time or a signal is
// shown as waiting, whether or not a process has it open.
export function shown(run) {
  return (run.status === "running" && run.calls.waiting > 0) || isParked(run) ? "waiting" : run.status;
}

// isParked reports whether a run is paused and does not need an answer.
export function isParked(run) {
  return run.status === "paused" && questionsOf(run).length === 0 && !(run.partial && run.calls.asking > 0);
}

// questionsOf returns the questions of a run. If the run was cancelled, only the questions of
// compensations still need an answer.
export const questionsOf = (run) => (run.stopping?.reason === "cancel" ? run.questions.filter(({ id }) => id.includes("@undo/")) : run.questions);

// isSettled reports whether a run has ended for good.
export const isSettled = (run) => ["completed", "failed", "cancelled"].includes(run.status);

// askToStop records that a run was asked to stop. The event may arrive after the run has stopped.
// If the run was cancelled, its compensations may still be waiting then.
export function askToStop(run, stopping) {
  if (run.status === "running" || stopping.reason === "cancel" && !isSettled(run)) run.stopping = stopping;
}

// stoppingText returns a description of who asked the run to stop, or "" if nobody did.
export function stoppingText({ stopping }) {
  if (!stopping) return "";
  const what = stopping.reason === "cancel" ? "Cancel" : "Interrupt";
  return what + " requested" + (stopping.by ? " by " + stopping.by : "") + (stopping.message ? ": " + stopping.message : "");
}

// stopText returns a description of who or what stopped a run, or "" if the run was not interrupted
// or cancelled.
export function stopText({ status, stop }) {
  if (status !== "interrupted" && status !== "cancelled") return "";
  if (!stop || stop.reason === "crash") return "Interrupted by a crash: its process ended without closing it.";
  const what = status === "cancelled" ? "Cancelled for good" : stop.reason === "shutdown" ? "Interrupted by a shutdown" : "Interrupted";
  const text = what + (stop.by ? " by " + stop.by : "") + (stop.message ? ": " + stop.message : "");
  return ["user", "cancel", "shutdown", "fork"].includes(stop.reason) ? text : `${text} (${words(stop.reason)})`;
}
