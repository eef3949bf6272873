// Elements are made and changed here. Text goes in as text alone: what a tool
// returned never becomes markup.

// make returns a new element. Children are elements, or text; nothing stands
// for none.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

export const byID = (id) => document.getElementById(id);

const svg = "http://www.w3.org/2000/svg";

// icon shows a symbol of index.html.
export function icon(name) {
  const use = document.createElementNS(svg, "use");
  use.setAttribute("href", "#i-" + name);
  const element = document.createElementNS(svg, "svg");
  element.setAttribute("class", "icon");
  element.setAttribute("aria-hidden", "true");
  element.append(use);
  return element;
}

// The setters touch the page only where something has changed: most of what is
// drawn ten times a second has not.

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.getAttribute("class") !== name) element.setAttribute("class", name);
}

export function setAttribute(element, name, value) {
  if (value === undefined || value === null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

export function setHidden(element, hidden) {
  if (element.hasAttribute("hidden") !== hidden) element.toggleAttribute("hidden", hidden); // SVG has no property for it
}

export function setIcon(element, name) {
  setAttribute(element.firstElementChild, "href", "#i-" + name);
}

const nodesOf = new WeakMap();

// list makes the children of the parent those of the items, in their order. An
// item keeps its element for as long as its key is there: create makes it, and
// update brings it up to date.
export function list(parent, items, key, create, update) {
  let nodes = nodesOf.get(parent);
  if (!nodes) nodesOf.set(parent, (nodes = new Map()));
  const focused = document.activeElement;
  const fresh = new Map();
  const shown = []; // the items, each key once
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
