// Formats times, amounts and names.

import { currency } from "./currency.js";
import { codeOf } from "./dom.js";

const pad = (n) => String(n).padStart(2, "0");

// duration formats a length of time in ms, with at most two units.
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  const s = Math.max(0, ms) / 1000;
  if (s < 0.0995) return Math.round(s * 1000) + " ms";
  if (s < 9.995) return s.toFixed(1) + " s";
  if (s < 60) return Math.min(59, Math.round(s)) + " s";
  const m = Math.round(s / 60);
  if (s < 3600) return Math.floor(s / 60) + " m " + pad(Math.floor(s % 60)) + " s";
  if (s < 86400) return Math.floor(m / 60) + " h " + pad(m % 60) + " m";
  return Math.floor(m / 1440) + " d " + Math.floor((m % 1440) / 60) + " h";
}

// age formats a length of time without fractions. It is for ages that are shown while they grow.
export function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " m " + pad(s % 60) + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + pad(Math.floor((s % 3600) / 60)) + " m";
  return Math.floor(s / 86400) + " d";
}

// countdown formats the time that is left. Below a minute, it shows tenths of a second.
export function countdown(ms) {
  if (ms > 59_950) return duration(ms);
  if (ms > 0) return (Math.ceil(ms / 100) / 10).toFixed(1) + " s";
  return ms > -2000 ? "now" : "late";
}

export function clockTime(ms) {
  const t = new Date(ms);
  return pad(t.getHours()) + ":" + pad(t.getMinutes()) + ":" + pad(t.getSeconds());
}

export function fullTime(ms) {
  return `${new Date(ms).toLocaleDateString("sv")} ${clockTime(ms)}`; // 2026-01-31 12:34:56
}

// atTime formats a time close to now. It includes the date if that is not today.
export const atTime = (ms, now) => (new Date(ms).toDateString() === new Date(now).toDateString() ? clockTime(ms) : fullTime(ms));

// count formats a number in a short form, such as 12.3k.
export function count(n) {
  if (!n) return "0";
  if (n < 10_000) return String(n);
  if (n < 999_500) return (n / 1000).toFixed(n < 99_950 ? 1 : 0) + "k";
  return (n / 1e6).toFixed(n < 99.95e6 ? 1 : 0) + "M";
}

// exact formats a number with all its digits.
export const exact = (n) => n.toLocaleString("en");

export function cost(amount) {
  if (!amount) return "–";
  const unit = currency() && " " + currency();
  if (amount < 0.0001) return "<0.0001" + unit;
  if (amount < 1) return amount.toFixed(4) + unit;
  return amount.toFixed(amount < 100 ? 2 : 0) + unit;
}

// about returns the prefix for a usage: "~" if the usage was estimated because the service did not
// report it.
export const about = (usage) => (usage.estimated ? "~" : "");
export const tokens = (usage) => about(usage) + `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`;
export const price = (usage) => about(usage) + cost(usage.cost);

// escaped replaces control characters, and characters that change the direction of text, with their
// codes, so that people see what they approve.
export const escaped = (text) => (text ?? "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => (c === "\n" ? "\\n" : codeOf(c)));

export const plural = (n, one, many = one + "s") => n + " " + (n === 1 ? one : many);

// attempt returns "2 of 5", "2 of ∞", or "2" if the maximum is not known.
export function attempt(index, max) {
  const n = (index ?? 0) + 1;
  if (max === undefined) return String(n);
  return n + " of " + (max < 0 ? "∞" : max);
}

const kinds = {
  tool_call: "tool", llm_call: "LLM", agent_call: "agent", step: "step", run: "run", log: "log",
  value: "value", question: "question", answer: "answer", group: "group", branch: "branch",
  compensation: "compensation",
};
export const kind = (name) => kinds[name] ?? name;

// words makes a name in JSON readable: "rate_limit" becomes "rate limit".
export const words = (name) => (name ?? "").replaceAll("_", " ");

const sources = { retry_after: "Retry-After", breaker: "circuit breaker" };
export const source = (name) => sources[name] ?? words(name);

// reason formats the reason why a call failed for good. It returns "" if the call was allowed only
// one attempt and used it.
export const reason = (name, max) => (name === "exhausted" && max === 1 ? "" : words(name));

// The statuses of a run, as the page shows them. A run is "waiting" if it waits only for a signal
// or for a time, such as that of a call's next attempt. Rare statuses are shown only if some run
// has them.
export const statuses = {
  queued: { text: "queued", icon: "paused", rare: true },
  running: { text: "running", icon: "running" },
  waiting: { text: "waiting", icon: "waiting" },
  paused: { text: "needs answer", icon: "question" },
  interrupted: { text: "interrupted", icon: "interrupted" },
  cancelled: { text: "cancelled", icon: "interrupted", rare: true },
  failed: { text: "failed", icon: "failed" },
  completed: { text: "completed", icon: "completed" },
};
