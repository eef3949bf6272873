// One call: its attempts with their errors and waits, its input and output, its log
// lines and its questions.

import { make, setHidden, icon, byID } from "./dom.js";
import { progressOf } from "./calls.js";
import { parse } from "./exact.js";
import { attempt, clockTime, countdown, duration, escaped, fullTime, kind, plural, price, reason, tokens, words } from "./format.js";
import { show } from "./payload.js";
import { route } from "./route.js";

const panel = byID("detail");
let drawn = ""; // what the panel shows
let of = {}; // the run's calls, and the run from which it was forked

// draw shows the call in the panel, or hides the panel if call is undefined.
export function draw(call, now, close, fork, { calls = [], parent } = {}) {
  setHidden(panel, !call);
  document.body.classList.toggle("with-detail", Boolean(call));
  if (!call) {
    drawn = "";
    return;
  }
  // When anything has changed, the whole panel is rebuilt, because most calls have only a few
  // lines.
  const version = versionOf(call);
  of = { calls, parent };
  if (version === drawn) return tick(call, now);
  const fresh = !drawn.startsWith(call.address + "|");
  const focused = panel.contains(document.activeElement);
  const top = panel.scrollTop;
  panel.replaceChildren(...contents(call, now, close, fork));
  drawn = version;
  panel.scrollTop = top;
  if (focused) panel.querySelector("button").focus({ preventScroll: true });
  if (fresh && below.matches) panel.scrollIntoView({ block: "nearest" });
  tick(call, now);
}

const below = matchMedia("(max-width: 1000px)"); // the panel is below the calls

const versionOf = (call) =>
  [call.address, call.status, call.end, call.attempts.length, call.dropped, call.recalled, call.logs.length, call.logs.at(-1)?.time, call.questions.length, call.questions.at(-1)?.answered, call.children.size, call.kind === "group" && progressOf(call).done].join("|");

// tick updates the countdown.
export function tick(call, now) {
  const left = panel.querySelector("[data-left]");
  const wait = call?.attempts.at(-1)?.wait;
  if (left && wait) left.textContent = wait.until > now ? "in " + countdown(wait.until - now) : countdown(wait.until - now);
  const running = panel.querySelector("[data-running]");
  if (running && call) running.textContent = duration(now - call.attempts.at(-1).start);
}

function contents(call, now, close, fork) {
  const parts = [
    make("header", {},
      icon(call.kind), make("h2", { id: "detail-title" }, call.name), make("span", { class: "chip s-" + call.status }, words(call.status)),
      make("span", { class: "spacer" }),
      make("button", { type: "button", class: "quiet square", "aria-label": "Close", title: "Close (Esc)", onclick: close }, icon("close"))),
    make("p", { class: "mono address" }, call.address),
    facts(call),
    call.kind === "group" || call.branch ? undefined : make("p", {}, make("button", { type: "button", class: "quiet", "data-fork": true, onclick: () => fork(call.address) }, "Fork from here…")),
  ].filter(Boolean);
  if (call.questions.length > 0) parts.push(section("Questions", questions(call)));
  if (call.attempts.length > 0) parts.push(section("Attempts", attempts(call), call.attempts.some((a) => a.error && a.outcome !== "awaiting") ? whole(call, "error") : undefined));
  if (call.status === "interrupted") parts.push(section("Interrupted", make("p", {}, [words(call.reason), call.interruptedBy && "by " + call.interruptedBy, call.message].filter(Boolean).join(" · "))));
  if (call.attempts.length === 0 && call.error) parts.push(section("Error", make("p", { class: "error" }, call.error)));
  if (call.input) parts.push(section("Input", preview(call.input), whole(call, "input")));
  if (call.output) parts.push(section("Output", preview(call.output), whole(call, "output")));
  else if (call.artifact) parts.push(section("Output, stored separately", whole(call, "output")));
  if (call.logs.length > 0) parts.push(section("Log", logs(call)));
  return parts;
}

const whole = (call, part) =>
  make("p", {}, make("button", { type: "button", class: "quiet", "data-part": part, onclick: () => show(route().run, call.address, part, { alike: alike(call), asked: asked(call) }) }, `Whole ${part}`));

const mostAlike = 30;

// alike returns the calls that a call can be compared with: the same call in other attempts of the
// calls around it, the previous call with the same name, and the same call in the run from which
// this run was forked.
function alike(call) {
  const run = route().run;
  const bare = (address) => address.replaceAll(/@\d+/g, "");
  const all = [];
  for (const other of [...of.calls]) {
    if (other === call || other.kind !== call.kind) continue;
    if (bare(other.address) === bare(call.address)) all.push({ run, address: other.address, label: "another attempt: " + other.address });
    else if (other.parent === call.parent && other.name === call.name && other.entry === call.entry && other.nth === call.nth - 1) all.unshift({ run, address: other.address, label: "the previous call: " + other.address });
    if (all.length === mostAlike) break;
  }
  if (of.parent) all.push({ run: of.parent, address: call.address, label: `before the fork: ${of.parent}` });
  return all;
}

// asked returns the address of the model call whose request contains the schema for a call's
// output: the call itself, or the last model call of an agent.
function asked(call) {
  if (call.kind === "llm_call") return call.address;
  return call.kind === "agent_call" ? [...call.children].findLast(({ kind }) => kind === "llm_call")?.address : undefined;
}

const section = (title, ...children) => make("section", {}, make("h3", {}, title), ...children);

function facts(call) {
  const list = make("dl", { class: "facts" });
  const fact = (name, value) => value && list.append(make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  fact("Kind", kind(call.kind) + (call.tag ? `, tag ${call.tag}` : ""));
  if (call.kind === "group") {
    const { done, of } = progressOf(call);
    fact("Branches", `${done} of ${of} done`);
  }
  fact("Output", call.cached ? "from the cache" : "");
  fact("Attempts", attempt(Math.max(0, call.attempts.at(-1)?.n ?? 0), call.max));
  fact("Inside", call.children.size ? plural(call.children.size, "call") : "");
  fact("Began", call.start ? clockTime(call.start) : call.attempts.length > 0 ? "before the loaded part" : "");
  fact("Took", call.end && call.start && call.status !== "running" && call.status !== "waiting" ? duration(call.end - call.start) : "");
  fact("Recalled", call.recalled ? plural(call.recalled, "time") : "");
  fact("Tokens", call.usage.input_tokens + call.usage.output_tokens ? tokens(call.usage) : "");
  fact("Cost", call.usage.cost ? price(call.usage) : "");
  fact("Ended", call.status === "failed" && call.reason ? reason(call.reason, call.max) : "");
  return list;
}

function attempts(call) {
  const list = make("ol", { class: "attempts" });
  if (call.dropped > 0) list.append(make("li", { class: "muted" }, plural(call.dropped, "earlier attempt") + " no longer kept here"));
  for (const a of call.attempts) {
    const item = make("li", { class: "b-" + a.outcome },
      make("span", { class: "first" },
        make("b", {}, a.again ? `${attempt(a.n, call.max)}, again` : attempt(a.n, call.max)),
        make("span", {}, outcomes[a.outcome] ?? words(a.outcome)),
        a.start === undefined ? undefined : make("time", { class: "muted", title: fullTime(a.start), datetime: new Date(a.start).toISOString() }, clockTime(a.start)),
        a.end ? make("span", { class: "num" }, duration(a.end - a.start)) : make("span", { class: "num", "data-running": true })));
    if (a.attributes) item.append(attributes(a.attributes));
    if (a.error && a.outcome !== "awaiting" && a.outcome !== "paced") {
      item.append(make("p", { class: "error" }, make("span", { class: "class " + a.errorClass }, words(a.errorClass)), " ", a.error,
        a.stage && a.stage !== "handler" ? make("span", { class: "muted" }, ` (${a.stage})`) : undefined));
    }
    if (a.wait) item.append(waitLine(a.wait));
    list.append(item);
  }
  return list;
}

// attributes lists an attempt's attributes, such as the response ID from a service.
const attributes = (of) =>
  make("dl", { class: "facts" }, ...Object.entries(of).map(([key, value]) =>
    make("div", {}, make("dt", {}, words(key)), make("dd", { class: "mono" }, typeof value === "string" ? value : JSON.stringify(value)))));

const outcomes = { paced: "waits before it begins", retried: "failed, tried again", failed: "failed for good", awaiting: "suspended until it can continue", stopped: "ended with the run", lost: "the process ended during it" };

function waitLine(wait) {
  const line = make("p", { class: "wait-line " + wait.source }, icon(wait.source === "retry_after" ? "service" : "backoff"));
  const why = { retry_after: "as the service asked (Retry-After)", breaker: "until the circuit breaker lets one through", interceptor: "for a limit" }[wait.source] ?? "by backoff";
  if (wait.end) line.append(`waited ${duration(wait.end - wait.start)} of ${duration(wait.delay)} ${why}`);
  else line.append(`waits ${duration(wait.delay)} ${why}, next attempt `, make("b", { "data-left": true, class: "num" }));
  return line;
}

function questions(call) {
  return make("ul", { class: "asked" }, ...call.questions.map((q) =>
    make("li", {}, icon("question"), make("span", {}, escaped(q.text)), make("p", { class: "muted" }, q.answered ? `answered ${clockTime(q.answered)}${q.by ? " by " + escaped(q.by) : ""}: ${escaped(q.answer)}` : "not answered"))));
}

function logs(call) {
  return make("ol", { class: "loglines" }, ...call.logs.map((line) =>
    make("li", { class: "severity-" + line.severity }, make("time", { class: "muted" }, clockTime(line.time)), make("span", { class: "severity" }, line.severity),
      make("span", {}, line.message, line.metadata ? make("span", { class: "mono muted" }, " " + JSON.stringify(line.metadata)) : undefined))));
}

// preview shows encoded data. JSON is spread over several lines.
function preview(text) {
  let shown = text;
  try {
    const value = parse(text);
    shown = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  } catch {
    // The text was truncated, or is not JSON.
  }
  return make("pre", {}, shown);
}
