// Shows many calls with the same name as one line that the user can open, such as the turns of a
// loop ("claude × 40") or calls that wait for the same reason.

import { duration, plural, words } from "./format.js";

const least = 10; // the smallest group of calls that becomes a line

// keyOf returns a key for grouping a parent's calls: calls with the same key are shown as one line.
function keyOf(call) {
  if (call.kind === "group") return undefined;
  const inner = call.branch ? [...call.children].at(-1) : undefined; // a branch is shown as its last call
  const waits = call.status === "waiting" ? call : inner?.status === "waiting" ? inner : undefined;
  const name = inner?.name ?? (call.branch ? "branch" : call.name);
  return `${call.kind}|${name}|${waits ? `waits|${waits.errorClass ?? ""}|${waits.attempts.at(-1)?.wait?.source ?? ""}` : ""}`;
}

const pathOf = (call, key) => `${call.parent?.address ?? ""}|${key}`;

// loopOf returns the address of the line that contains a call, if there is one.
export function loopOf(call) {
  const key = keyOf(call);
  return key && pathOf(call, key);
}

// fold replaces groups of calls with lines, each in the position of the group's first call. It
// returns the calls and lines to show. A line contains the calls of its group.
export function fold(calls) {
  if (calls.size < least) return calls;
  const groups = new Map();
  for (const call of calls) {
    const key = keyOf(call);
    if (!key) continue;
    const group = groups.get(key);
    if (group) group.push(call);
    else groups.set(key, [call]);
  }
  const shown = [];
  const placed = new Set();
  for (const call of calls) {
    const key = keyOf(call);
    const group = key && groups.get(key);
    if (!group || group.length < least) shown.push(call);
    else if (!placed.has(key)) {
      placed.add(key);
      shown.push(lineOf(key, group));
    }
  }
  return shown;
}

const order = ["waiting", "running", "awaiting", "failed", "interrupted", "stopped", "completed"]; // a line's status is the first of these that any of its calls has

function lineOf(key, calls) {
  const [kind, name, waits] = key.split("|");
  const counts = {};
  let version = calls.length;
  for (const call of calls) {
    const status = waits ? "waiting" : call.status;
    counts[status] = (counts[status] ?? 0) + 1;
    version += call.version;
  }
  return {
    address: pathOf(calls[0], key), loop: calls, counts, kind: kind === "branch" ? "branch" : kind, name, depth: calls[0].depth, version, waits: Boolean(waits),
    status: order.find((status) => counts[status]) ?? "running", children: { size: calls.length }, attempts: [],
  };
}

const said = { completed: "ok", failed: "failed", running: "run", waiting: "wait", awaiting: "ask", interrupted: "interrupted", stopped: "stopped" };

// hintOf returns how many calls a line contains and, if they wait, why.
export function hintOf({ loop, waits }) {
  const [first] = loop;
  const call = first.branch ? [...first.children].at(-1) ?? first : first;
  return `× ${loop.length}` + (waits ? ` wait${call.errorClass ? ": " + words(call.errorClass) : ""}` : "");
}

// stateOf returns a text with the states of a line's calls or, if they wait, with the time until
// the first of them stops waiting.
export function stateOf({ loop, counts, waits }, now) {
  if (!waits) return order.filter((status) => counts[status]).map((status) => `${counts[status]} ${said[status]}`).join(", ");
  const next = Math.min(...loop.map((call) => waitOf(call)?.until ?? Infinity));
  return Number.isFinite(next) && next > now ? `next in ${duration(next - now)}` : plural(loop.length, "call");
}

const waitOf = (call) => (call.attempts.at(-1)?.wait ?? [...call.children].at(-1)?.attempts.at(-1)?.wait);

const mostBars = 60;

// barsOf returns the bars for the last calls of a line.
export function barsOf({ loop }, now) {
  return loop.slice(-mostBars).map((call) => ({
    key: call.address, kind: call.status === "waiting" ? "backoff" : call.status, from: call.start,
    to: call.status === "running" || call.status === "waiting" ? now : call.end, title: `${call.address}: ${words(call.status)}`,
  }));
}
