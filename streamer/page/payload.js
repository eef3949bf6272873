// The whole input, output or error of a call: JSON as members that can be folded, text with its
// line breaks, and a model's input or output as a conversation.

import { difference } from "./difference.js";
import { make, setHidden, setText, byID } from "./dom.js";
import { isRaw, parse } from "./exact.js";
import { fit } from "./fit.js";
import { count, escaped, plural } from "./format.js";
import { runPath } from "./request.js";

const dialog = byID("payload");
const body = byID("payload-body");
const search = byID("payload-search");
const found = byID("payload-found");
const compare = byID("payload-compare");
const mostAtOnce = 200; // members that are created at a time
const mostFound = 500;
const mostShown = 32 << 20; // bytes

let text = ""; // what is shown
let value; // the parsed text, if it is JSON
let turn = 0;
let schema; // the schema of the value, if it is known
let others = []; // calls that the value can be compared with
let shownPart = "";

const pathOf = (run, address, part) => `${runPath(run)}/calls/${encodeURIComponent(address)}/${part}`;

// show shows one part of a call: its input, output or error. alike lists other calls that the part
// can be compared with, as {run, address, label}. asked is the address of the model call whose
// request contains the schema of the output.
export async function show(run, address, part, { alike = [], asked } = {}) {
  const mine = ++turn;
  const path = pathOf(run, address, part);
  schema = undefined;
  shownPart = part;
  others = part === "error" ? [] : alike;
  setHidden(byID("payload-others"), true);
  compare.replaceChildren();
  setText(byID("payload-title"), `${part[0].toUpperCase() + part.slice(1)} of ${address}`);
  byID("payload-download").href = path + "?download=1";
  search.value = "";
  setText(found, "");
  text = "";
  value = undefined;
  byID("payload-copy").disabled = true;
  body.replaceChildren(make("p", { class: "muted" }, "Loading…"));
  if (!dialog.open) dialog.showModal();
  try {
    const [received, request] = await Promise.all([read(path), asked && part === "output" ? read(pathOf(run, asked, "input")).catch(() => undefined) : undefined]);
    if (mine !== turn) return;
    ({ text, value } = received);
    byID("payload-copy").disabled = false;
    schema = request?.value?.options?.format?.schema;
    body.replaceChildren(contents());
    setHidden(byID("payload-others"), others.length === 0);
    compare.replaceChildren(make("option", { value: "" }, "compare with…"), ...others.map(({ label }, i) => make("option", { value: i }, label)));
  } catch (error) {
    if (mine === turn) body.replaceChildren(make("p", { class: "error", role: "alert" }, error.message));
  }
}

async function read(path) {
  const response = await fetch(path, { credentials: "same-origin" });
  const bytes = Number(response.headers.get("Content-Length"));
  if (response.ok && bytes > mostShown) {
    response.body.cancel();
    throw new Error(`It has ${count(bytes)} bytes, which is too much to show here. Download it.`);
  }
  const text = await response.text();
  if (!response.ok) throw new Error(messageOf(text) ?? `The server answered with status ${response.status}.`);
  return { text, value: response.headers.get("Content-Type")?.includes("json") ? parse(text) : undefined };
}

// messageOf returns the message of a refusal, or undefined if the text is not a refusal, as that of
// a proxy.
function messageOf(text) {
  try {
    return JSON.parse(text).error?.message;
  } catch {
    return undefined;
  }
}

// showDifference shows how the value differs from that of the selected call, or shows the whole
// value if no call is selected.
async function showDifference() {
  const mine = ++turn;
  const other = others[compare.value];
  letGo();
  if (!other) return body.replaceChildren(contents());
  try {
    const received = await read(pathOf(other.run, other.address, shownPart));
    if (mine === turn) body.replaceChildren(difference(linesOf(received), linesOf({ text, value })));
  } catch (error) {
    if (mine === turn) body.replaceChildren(make("p", { class: "error", role: "alert" }, `${other.label}: ${error.message}`));
  }
}

const linesOf = ({ text, value }) => (value === undefined ? text : JSON.stringify(value, null, 2));

function contents() {
  if (value === undefined) return lines(text);
  const messages = messagesOf(value);
  const answer = messages ? answerOf(messages) : value;
  const against = schema && answer !== undefined ? fit(answer, schema) : undefined;
  if (!messages) return against ? make("div", {}, against, member(undefined, value, true)) : member(undefined, value, true);
  return make("div", { class: "conversation" }, against, ...conversation(messages),
    make("details", {}, make("summary", {}, "All of it, as JSON"), member(undefined, value, true)));
}

// lines shows a text as it is, except for invisible characters.
const lines = (text) => make("pre", { dir: "auto" }, text.split("\n").map(escaped).join("\n"));

// member shows a key and its value. The members inside the value are created when the user opens
// it.
function member(key, value, open) {
  const name = key === undefined ? undefined : make("span", { class: "key" }, escaped(String(key)) + ": ");
  if (value === null || typeof value !== "object" || isRaw(value)) return leaf(name, value);
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  const sign = Array.isArray(value) ? `[${count(entries.length)}]` : `{${count(entries.length)}}`;
  if (entries.length === 0) return make("div", { class: "leaf" }, name, make("span", { class: "muted" }, sign));
  const inside = make("div", { class: "inside" });
  const node = make("details", { class: "member" }, make("summary", {}, name, make("span", { class: "muted" }, sign)), inside);
  let made = 0;
  const more = make("button", { type: "button", class: "quiet", onclick: () => node.reach(made + mostAtOnce) });
  // reach creates the members up to the given one, and returns their elements.
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
  return make("div", { class: "leaf" }, name, make("span", { class: "value " + (isRaw(value) ? "number" : typeof value), dir: "auto" }, JSON.stringify(value)));
}

// messagesOf returns the messages in a request to a model or in a model's response. It returns
// undefined if the value is neither.
function messagesOf(value) {
  const isMessage = (message) => typeof message?.role === "string";
  if (Array.isArray(value?.messages) && value.messages.length > 0 && value.messages.every(isMessage)) return value.messages;
  return isMessage(value?.message) ? [value.message] : undefined;
}

// answerOf returns a model's answer as a JSON value, or undefined if the answer is not
// JSON.
function answerOf(messages) {
  try {
    return parse(messages.at(-1).text);
  } catch {
    return undefined;
  }
}

// conversation shows messages. The results of tools are shown next to their calls.
function conversation(messages) {
  const results = new Map();
  for (const message of messages) if (message.role === "tool" && message.tool_call_id) results.set(message.tool_call_id, message);
  const called = new Set(messages.flatMap(({ tool_calls }) => (tool_calls ?? []).map(({ id }) => id)));
  return messages.filter((message) => !(message.role === "tool" && called.has(message.tool_call_id)))
    .map((message) => make("article", { class: "message r-" + message.role },
      make("h3", {}, escaped(message.role) + (message.refusal ? ", refuses" : "")),
      message.reasoning ? make("details", { class: "reasoning" }, make("summary", {}, "Reasoning"), lines(message.reasoning)) : undefined,
      message.text ? lines(message.text) : undefined,
      ...(message.parts ?? []).map(partOf),
      ...(message.tool_calls ?? []).map((call) => toolCall(call, results.get(call.id)))));
}

// partOf shows a part of a message: a text, a picture, or the data of anything else.
function partOf(part) {
  if (typeof part.text === "string" && part.text) return lines(part.text);
  return picture(part) ?? member(part.name ?? part.mime ?? "part", part, false);
}

const pictures = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"]);
let urls = []; // the URLs of the pictures

// picture returns an element that shows a picture, or undefined if the part is not a picture.
// Pictures that are stored elsewhere are not loaded: the element shows the picture's address
// instead.
function picture({ mime, data, url }) {
  if (/^image\//.test(mime ?? "") && url && !data) return make("p", {}, make("span", { class: "muted" }, "A picture stored elsewhere: "), make("span", { class: "mono" }, escaped(url)));
  if (!pictures.has(mime) || typeof data !== "string") return undefined;
  let bytes;
  try {
    bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  } catch {
    return undefined; // the data was redacted
  }
  const address = URL.createObjectURL(new Blob([bytes], { type: mime }));
  urls.push(address);
  const image = make("img", { class: "picture", alt: `Picture, ${mime}, ${count(bytes.length)} bytes`, src: address });
  image.addEventListener("error", () => image.replaceWith(make("p", { class: "muted" }, `A picture (${mime}) that the browser cannot show.`)));
  return image;
}

// letGo releases the data of the pictures.
function letGo() {
  for (const url of urls) URL.revokeObjectURL(url);
  urls = [];
}

function toolCall({ name, arguments: input }, result) {
  return make("div", { class: "toolcall" },
    make("div", {}, make("h4", {}, escaped(name)), parsed(input)),
    make("div", { class: result?.is_error ? "error" : undefined }, make("h4", {}, result ? (result.is_error ? "error" : "result") : "no result here"), ...(result ? [result.text || !result.parts?.length ? parsed(result.text ?? "") : undefined, ...(result.parts ?? []).map(partOf)] : [])));
}

function parsed(text) {
  try {
    return member(undefined, parse(text), text.length < 2000);
  } catch {
    return lines(text);
  }
}

// find opens the members that contain the text, and scrolls to the first occurrence.
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

// open creates the elements for those parts of a value that contain the text, and adds them to
// hits.
function open(node, value, wanted, hits) {
  const entries = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  for (const [i, [key, inside]] of entries.entries()) {
    if (hits.length >= mostFound) return;
    const isInside = (JSON.stringify(inside) ?? "").toLowerCase().includes(wanted);
    const isKey = !Array.isArray(value) && key.toLowerCase().includes(wanted);
    if (!isInside && !isKey) continue;
    const child = node.reach(i + 1)[i];
    const nested = inside !== null && typeof inside === "object" && !isRaw(inside);
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
dialog.addEventListener("close", () => {
  if (dialog.open) return; // the dialog has been opened again since
  turn++; // ignore the results of pending requests
  letGo();
});
compare.addEventListener("change", showDifference);
