// What went into a call and what came out of it, whole: JSON that folds, text with its
// lines, and the input and output of a model as the conversation that they are.

import { make, setText, byID } from "./dom.js";
import { count, escaped, plural } from "./format.js";
import { runPath } from "./request.js";

const dialog = byID("payload");
const body = byID("payload-body");
const search = byID("payload-search");
const found = byID("payload-found");
const mostAtOnce = 200; // members that are made at a time
const mostFound = 500;

let text = ""; // what is shown
let value; // the same, if it is JSON
let turn = 0;

// show shows a part of a call: input, output or error.
export async function show(run, address, part) {
  const mine = ++turn;
  const path = `${runPath(run)}/calls/${encodeURIComponent(address)}/${part}`;
  setText(byID("payload-title"), `${part[0].toUpperCase() + part.slice(1)} of ${address}`);
  byID("payload-download").href = path + "?download=1";
  search.value = "";
  setText(found, "");
  text = "";
  value = undefined;
  body.replaceChildren(make("p", { class: "muted" }, "Loading…"));
  if (!dialog.open) dialog.showModal();
  try {
    const response = await fetch(path, { credentials: "same-origin" });
    const received = await response.text();
    if (mine !== turn) return;
    if (!response.ok) throw new Error(JSON.parse(received).error.message);
    text = received;
    if (response.headers.get("Content-Type")?.includes("json")) value = JSON.parse(received);
    body.replaceChildren(contents());
  } catch (error) {
    if (mine === turn) body.replaceChildren(make("p", { class: "error", role: "alert" }, error.message));
  }
}

function contents() {
  if (value === undefined) return lines(text);
  const messages = messagesOf(value);
  if (!messages) return member(undefined, value, true);
  return make("div", { class: "conversation" }, ...conversation(messages),
    make("details", {}, make("summary", {}, "All of it, as JSON"), member(undefined, value, true)));
}

// lines shows a text as it is, but for characters that cannot be seen.
const lines = (text) => make("pre", { dir: "auto" }, text.split("\n").map(escaped).join("\n"));

// member shows a value and its key; what is inside is made when it is opened.
function member(key, value, open) {
  const name = key === undefined ? undefined : make("span", { class: "key" }, escaped(String(key)) + ": ");
  if (value === null || typeof value !== "object") return leaf(name, value);
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  const sign = Array.isArray(value) ? `[${count(entries.length)}]` : `{${count(entries.length)}}`;
  if (entries.length === 0) return make("div", { class: "leaf" }, name, make("span", { class: "muted" }, sign));
  const inside = make("div", { class: "inside" });
  const node = make("details", { class: "member" }, make("summary", {}, name, make("span", { class: "muted" }, sign)), inside);
  let made = 0;
  const more = make("button", { type: "button", class: "quiet", onclick: () => node.reach(made + mostAtOnce) });
  // reach makes the members up to that one, and returns their elements.
  node.reach = (to) => {
    more.remove();
    const small = entries.length <= 20;
    for (; made < Math.min(to, entries.length); made++) inside.append(member(...entries[made], small && JSON.stringify(entries[made][1]).length < 2000));
    if (made < entries.length) {
      setText(more, `${plural(entries.length - made, "more member")}`);
      inside.append(more);
    }
    return inside.children;
  };
  node.addEventListener("toggle", () => node.open && made === 0 && node.reach(mostAtOnce));
  if (open) {
    node.open = true;
    node.reach(mostAtOnce);
  }
  return node;
}

function leaf(name, value) {
  if (typeof value === "string" && (value.includes("\n") || value.length > 200)) return make("div", { class: "leaf" }, name, lines(value));
  return make("div", { class: "leaf" }, name, make("span", { class: "value " + typeof value, dir: "auto" }, typeof value === "string" ? JSON.stringify(value) : String(value)));
}

// messagesOf returns the messages of a request to a model or of its response; undefined if
// the value is neither.
function messagesOf(value) {
  const isMessage = (message) => typeof message?.role === "string";
  if (Array.isArray(value?.messages) && value.messages.length > 0 && value.messages.every(isMessage)) return value.messages;
  return isMessage(value?.message) ? [value.message] : undefined;
}

// conversation shows messages, and the results of tools beside the calls of them.
function conversation(messages) {
  const results = new Map();
  for (const message of messages) if (message.role === "tool" && message.tool_call_id) results.set(message.tool_call_id, message);
  const called = new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)));
  return messages.filter((message) => !(message.role === "tool" && called.has(message.tool_call_id)))
    .map((message) => make("article", { class: "message r-" + message.role },
      make("h3", {}, escaped(message.role) + (message.refusal ? ", refuses" : "")),
      message.reasoning ? make("details", { class: "reasoning" }, make("summary", {}, "Reasoning"), lines(message.reasoning)) : undefined,
      message.text ? lines(message.text) : undefined,
      ...(message.parts ?? []).map((part) => (typeof part.text === "string" && part.text ? lines(part.text) : member(part.kind ?? part.type ?? "part", part, false))),
      ...(message.tool_calls ?? []).map((call) => toolCall(call, results.get(call.id)))));
}

function toolCall({ name, arguments: input }, result) {
  return make("div", { class: "toolcall" },
    make("div", {}, make("h4", {}, escaped(name)), parsed(input)),
    make("div", { class: result?.is_error ? "error" : undefined }, make("h4", {}, result ? (result.is_error ? "error" : "result") : "no result here"), result ? parsed(result.text ?? "") : undefined));
}

function parsed(text) {
  try {
    return member(undefined, JSON.parse(text), text.length < 2000);
  } catch {
    return lines(text);
  }
}

// find opens what contains the text, and goes to the next of it.
function find() {
  for (const node of body.querySelectorAll(".hit")) node.classList.remove("hit");
  const wanted = search.value.toLowerCase();
  if (!wanted) return setText(found, "");
  const tree = [...body.querySelectorAll("details.member")].at(messagesOf(value) ? -1 : 0);
  let hits = [];
  if (value === undefined || !tree || messagesOf(value)) {
    hits = [...body.querySelectorAll("pre, .value, .key")].filter((node) => node.textContent.toLowerCase().includes(wanted));
  } else {
    open(tree, value, wanted, hits);
  }
  for (const node of hits) {
    for (let around = node.parentElement; around && around !== body; around = around.parentElement) if (around.tagName === "DETAILS") around.open = true;
    node.classList.add("hit");
  }
  setText(found, hits.length >= mostFound ? `the first ${mostFound} places` : plural(hits.length, "place"));
  hits[0]?.scrollIntoView({ block: "center" });
}

// open makes and collects the elements of a value that have the text.
function open(node, value, wanted, hits) {
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  for (const [i, [key, inside]] of entries.entries()) {
    if (hits.length >= mostFound) return;
    const isInside = (JSON.stringify(inside) ?? "").toLowerCase().includes(wanted);
    const isKey = !Array.isArray(value) && key.toLowerCase().includes(wanted);
    if (!isInside && !isKey) continue;
    const child = node.reach(i + 1)[i];
    const nested = inside !== null && typeof inside === "object";
    if (isKey || !nested) hits.push(child.tagName === "DETAILS" ? child.firstElementChild : child);
    if (isInside && nested && child.reach) open(child, inside, wanted, hits);
  }
}

let timer;
search.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(find, 200);
});
byID("payload-copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(text);
    setText(found, "copied");
  } catch {
    setText(found, "This browser does not let the page copy; download it instead.");
  }
});
byID("payload-close").addEventListener("click", () => dialog.close());
