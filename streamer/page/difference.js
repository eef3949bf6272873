// The differences between two texts, line by line.

import { make } from "./dom.js";
import { escaped, plural } from "./format.js";

const mostCompared = 4e6; // pairs of lines; if there are more, all lines are shown as different
const around = 3; // the number of equal lines shown before and after a difference

// difference returns an element with the lines of both texts. Lines that occur only in the first
// text are marked with "−", and lines that occur only in the second with "+". Long equal parts are
// folded.
export function difference(before, after) {
  const lines = compare(before.split("\n"), after.split("\n"));
  const changed = lines.filter(({ sign }) => sign !== " ").length;
  if (changed === 0) return make("p", { class: "muted" }, "There is no difference.");
  return make("div", {}, make("p", { class: "muted" }, `${plural(changed, "line")} differ${changed === 1 ? "s" : ""}: − marks lines of the other call, + lines of this call.`),
    make("div", { class: "difference" }, ...foldEqual(lines)));
}

function compare(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const equal = (lines) => lines.map((text) => ({ sign: " ", text }));
  return [...equal(a.slice(0, start)), ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)), ...equal(a.slice(a.length - end))];
}

// middle compares two texts whose first lines differ and whose last lines differ, using their
// longest common subsequence of lines.
function middle(a, b) {
  const removed = (lines) => lines.map((text) => ({ sign: "−", text }));
  const added = (lines) => lines.map((text) => ({ sign: "+", text }));
  if (a.length * b.length === 0 || a.length * b.length > mostCompared) return [...removed(a), ...added(b)];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width); // length of the longest common subsequence of a.slice(i) and b.slice(j)
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) lines.push({ sign: " ", text: a[i++] }) && j++;
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) lines.push({ sign: "−", text: a[i++] });
    else lines.push({ sign: "+", text: b[j++] });
  }
  return [...lines, ...removed(a.slice(i)), ...added(b.slice(j))];
}

function foldEqual(lines) {
  const near = lines.map((_, i) => lines.slice(Math.max(0, i - around), i + around + 1).some(({ sign }) => sign !== " "));
  const parts = [];
  for (let i = 0; i < lines.length; ) {
    let end = i;
    while (end < lines.length && near[end] === near[i]) end++;
    const some = lines.slice(i, end);
    if (near[i]) parts.push(...some.map(line));
    else parts.push(folded(some));
    i = end;
  }
  return parts;
}

const words = { "−": "only the other: ", "+": "only this: " };

const line = ({ sign, text }) =>
  make("div", { class: sign === "+" ? "plus" : sign === "−" ? "minus" : "same", dir: "auto" },
    words[sign] ? make("span", { class: "hidden-text" }, words[sign]) : undefined, make("span", { "aria-hidden": "true" }, sign + " "), escaped(text));

function folded(some) {
  const node = make("details", {}, make("summary", { class: "muted" }, plural(some.length, "equal line")));
  node.addEventListener("toggle", () => node.open && node.childElementCount === 1 && node.append(...some.map(line)));
  return node;
}
