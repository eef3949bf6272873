// Functions that create and change elements. Text is always inserted as text, so
// the output of a tool never becomes markup.

// Characters that are invisible, or that change the direction of text.
const unseen = /[\p{Cc}\p{Zl}\p{Zp}\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

// visible replaces these characters, except newlines and tabs, with their codes, so that people see
// what the text contains.
export const visible = (text) => text.replace(unseen, (c) => (c === "\n" || c === "\t" ? c : codeOf(c)));

export function codeOf(c) {
  const code = c.codePointAt(0).toString(16);
  return code.length <= 2 ? "\\x" + code.padStart(2, "0") : code.length <= 4 ? "\\u" + code.padStart(4, "0") : "\\u{" + code + "}";
}

// Attributes whose text people read.
const readable = new Set(["title", "aria-label", "alt", "placeholder"]);

// make returns a new element. Children are elements or text; undefined children are
// left out.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : readable.has(key) ? visible(String(value)) : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null).map((child) => (typeof child === "string" ? visible(child) : child)));
  return element;
}

export const byID = (id) => document.getElementById(id);

const svg = "http://www.w3.org/2000/svg";

// icon returns an element that shows an icon from index.html.
export function icon(name) {
  const use = document.createElementNS(svg, "use");
  use.setAttribute("href", "#i-" + name);
  const element = document.createElementNS(svg, "svg");
  element.setAttribute("class", "icon");
  element.setAttribute("aria-hidden", "true");
  element.append(use);
  return element;
}

// The setters below change the page only if a value has changed, because most of what is drawn ten
// times a second stays the same.

export function setText(element, text) {
  if (element.textContent === text) return;
  const shown = visible(String(text));
  if (element.textContent !== shown) element.textContent = shown;
}

export function setClass(element, name) {
  if (element.getAttribute("class") !== name) element.setAttribute("class", name);
}

export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const shown = readable.has(name) ? visible(String(value)) : String(value);
  if (element.getAttribute(name) !== shown) element.setAttribute(name, shown);
}

export function setHidden(element, hidden) {
  if (element.hasAttribute("hidden") !== hidden) element.toggleAttribute("hidden", hidden); // SVG elements have no hidden property
}

export function setIcon(element, name) {
  setAttribute(element.firstElementChild, "href", "#i-" + name);
}

const nodesOf = new WeakMap();

// list makes the parent's children show the items, in order. The element for a key stays the same
// for as long as there is an item with that key: create makes the element, and update updates it.
export function list(parent, items, key, create, update) {
  let nodes = nodesOf.get(parent);
  if (!nodes) nodesOf.set(parent, (nodes = new Map()));
  const focused = document.activeElement;
  const fresh = new Map();
  const shown = []; // the items, without those whose key occurred before
  for (const item of items) {
    const k = key(item);
    if (fresh.has(k)) continue;
    fresh.set(k, nodes.get(k) ?? create(item));
    shown.push(item);
  }
  for (const [k, node] of nodes) {
    if (!fresh.has(k)) node.remove();
  }
  nodesOf.set(parent, fresh);
  let next = parent.firstChild;
  let i = 0;
  for (const node of fresh.values()) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
    update?.(node, shown[i++]);
  }
  // An element that is moved loses the focus.
  if (focused && focused !== document.activeElement && focused.isConnected && parent.contains(focused)) {
    focused.focus({ preventScroll: true });
  }
}
