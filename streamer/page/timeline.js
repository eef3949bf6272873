// A run's calls, one per row. The tree is on the left. On the right, a time axis shows a bar for
// each attempt and each wait.

import { make, list, setText, setClass, setAttribute, setHidden, setIcon, icon, byID } from "./dom.js";
import { progressOf, troubled } from "./calls.js";
import { attempt, countdown, exact, duration, plural, reason, source, words } from "./format.js";
import * as loops from "./loops.js";
import { Scale } from "./scale.js";

const most = 200; // rows
const mostBars = 16; // the maximum number of bars in a row, which show the last attempts

const narrow = matchMedia("(max-width: 720px)");

const stateIcons = {
  running: "running", waiting: "waiting", completed: "completed", failed: "failed",
  interrupted: "interrupted", awaiting: "question", stopped: "interrupted",
};

export class Timeline {
  collapsed = new Set();
  opened = new Set(); // addresses of the open lines, of those that stand for many calls
  page = 0; // the page of rows, counted from the newest
  #rows = byID("call-rows");
  #axis = byID("axis");
  #scale = new Scale([], 0, 0);
  #scaleKey = ""; // the values from which the scale was made
  #end = 0; // the end of the scale while the run is open
  #ticked = 0;
  #selected; // the selected call, once it has been scrolled into view
  #tree;
  #lines = new Map(); // lines that stand for many calls, by address
  #origin; // the call whose failure made the run fail
  #live = []; // rows that change as time passes
  #select;

  constructor(select) {
    this.#select = select;
    byID("legend").replaceChildren(...[
      ["completed", "completed"], ["retried", "failed, tried again"], ["failed", "failed for good"], ["running", "running"],
      ["backoff", "backoff"], ["retry_after", "Retry-After"], ["awaiting", "suspended"], ["interrupted", "interrupted"],
    ].map(([name, text]) => make("span", { "data-bar": name, hidden: true }, make("i", { class: "bar b-" + name }), text)));
    byID("earlier").onclick = () => this.#turn(1);
    byID("later").onclick = () => this.#turn(-1);
  }

  // line returns the line that stands for many calls and has the given address, if it is shown.
  line(address) {
    return this.#lines.get(address);
  }

  // stop removes the rows and the axis from the page.
  stop() {
    for (const element of [this.#rows, this.#axis, byID("grid-lines")]) list(element, []);
    for (const id of ["earlier", "later", "calls-none", "now-line"]) setHidden(byID(id), true);
    setText(byID("calls-total"), "0");
  }

  #turn(by) {
    this.page = Math.max(0, this.page + by);
    this.onTurn();
  }

  draw(tree, { filter, selected, range, running, total, ended, origin }, now) {
    if (tree !== this.#tree) {
      this.#tree = tree; // everything was reloaded
      this.#scaleKey = "";
      list(this.#rows, []);
    }
    const matches = matcher(filter);
    const filtered = Boolean(filter.text || filter.kind || filter.only);
    this.#origin = origin;
    if (selected !== this.#selected) this.#reveal(tree.calls.get(selected));
    const all = tree.rows(matches, this.collapsed, filtered ? undefined : this.opened);
    const found = selected !== this.#selected ? all.findIndex((call) => call.address === selected) : -1;
    if (found >= 0) this.page = Math.floor((all.length - 1 - found) / most); // the page that contains the call
    const pages = Math.max(1, Math.ceil(all.length / most));
    this.page = Math.min(this.page, pages - 1);
    const end = Math.max(0, all.length - this.page * most);
    const begin = Math.max(0, end - most);
    const rows = all.slice(begin, end);
    more(byID("earlier"), begin, "earlier", tree.forgotten);
    more(byID("later"), all.length - end, "later", 0);
    const loaded = filtered ? all.length : tree.calls.size;
    setText(byID("calls-total"), total > loaded && (tree.first !== 0 || filtered) ? `${exact(loaded)} of ${exact(total)}` : String(loaded));
    setHidden(byID("calls-none"), all.length > 0);
    setText(byID("calls-none"), tree.calls.size === 0 ? "No call yet." : "No call matches. Esc clears the search.");

    this.#drawScale(tree, range, running, now, latestWait(rows, now), ended);
    setHidden(byID("now-line"), !running);
    this.#drawNow(now);
    this.#live = [];
    this.#lines = new Map(rows.filter((call) => call.loop).map((call) => [call.address, call]));
    list(this.#rows, rows, (call) => call.address, (call) => this.#create(call), (node, call) => this.#update(node, call, selected, now));
    for (const entry of byID("legend").children) setHidden(entry, !this.#rows.querySelector(".b-" + entry.dataset.bar)); // only colours in use
    if (found >= 0) this.#rows.querySelector(".selected")?.scrollIntoView({ block: "nearest" });
    if (found >= 0 || !selected) this.#selected = selected;
    if (!this.#rows.querySelector('[tabindex="0"]')) this.#rows.firstElementChild?.setAttribute("tabindex", 0);
  }

  // #drawScale draws the axis. The axis extends beyond the current time, so that bars keep their
  // positions for a while and the rest of each wait is visible.
  #drawScale(tree, range, running, now, latest, ended) {
    const first = tree.openings[0]?.start ?? now;
    let end = Math.max(range ? tree.end : Math.max(tree.end, ended ?? 0), first + 1);
    if (running) {
      const length = (range !== "loaded" && range) || Math.max(4000, now - first);
      const ahead = Math.min(latest - now, length * 0.5);
      if (now + length * 0.02 > this.#end || now + ahead > this.#end || now + Math.max(ahead, length * 0.12) < this.#end - length * 0.25) {
        this.#end = now + Math.max(ahead * 1.05, length * 0.12);
      }
      end = this.#end;
    } else {
      this.#end = 0;
    }
    // If there is a range, the axis moves in steps instead of continuously.
    const length = range === "loaded" ? Math.max(1, end - tree.first) : range && range + (running ? end - (now - (now % 1000)) : 0);
    const key = [end, length, tree.first, tree.end > end - 1 ? 0 : tree.end, narrow.matches, tree.openings.length, tree.openings.at(-1)?.end].join();
    if (key === this.#scaleKey) return;
    this.#scaleKey = key;
    this.#scale = new Scale(tree.openings, end, length);
    const marks = [
      ...this.#scale.ticks(narrow.matches ? 3 : 7).filter((t) => t.x < 0.95).map((t) => ({ key: "t" + t.ms, x: t.x, text: t.ms === 0 ? "0" : duration(t.ms).replace(".0 s", " s") })),
      ...this.#scale.breaks().map((b, i) => ({ key: "b" + i, x: b.x, width: b.width, text: "", title: "closed for " + duration(b.ms) })),
      ...this.#unloaded(tree, end),
    ];
    drawMarks(this.#axis, marks);
    drawMarks(byID("grid-lines"), marks);
  }

  // #unloaded returns marks for the parts of the axis whose records are not loaded.
  #unloaded(tree, end) {
    if (!tree.openings[0]?.unseen) return [];
    const from = Math.max(0, this.#scale.x(tree.first));
    const marks = from > 0.002 ? [{ key: "u0", x: 0, width: from, text: "", title: "not loaded" }] : [];
    const to = this.#scale.x(tree.end);
    if (tree.end < end - 1000 && to >= 0 && to < 0.985 && !this.#end) marks.push({ key: "u1", x: to, width: 1 - to, text: "", title: "not loaded" });
    return marks;
  }

  // #reveal opens the calls and the lines that contain a call.
  #reveal(call) {
    for (let around = call; around; around = around.parent) {
      if (around !== call) this.collapsed.delete(around.address);
      const line = loops.loopOf(around);
      if (line) this.opened.add(line);
    }
  }

  #drawNow(now) {
    place(byID("now-line"), Math.max(0, this.#scale.x(now)));
  }

  // tick updates countdowns and the bars of running calls.
  tick(now) {
    this.#drawNow(now);
    if (this.#live.length > 40 && now - this.#ticked < 500) return; // nobody can watch that many
    this.#ticked = now;
    for (const { node, call } of this.#live) {
      drawState(node, call, now);
      this.#drawBars(node, call, now);
    }
  }

  #create(call) {
    const node = make("div", { class: "callrow", role: "row", tabindex: -1, "data-call": call.address, "data-row": true });
    node.parts = {};
    node.parts.twisty = make("button", { type: "button", class: "twisty", tabindex: -1, "aria-label": "Open or close", onclick: (event) => (event.stopPropagation(), this.toggle(node.call)) }, icon("open"));
    node.parts.name = make("span", { class: "callname" });
    node.parts.icon = icon(call.kind);
    node.parts.hint = make("span", { class: "hint" });
    node.parts.heading = make("div", { class: "lane-title", role: "gridcell" }, node.parts.twisty, node.parts.icon, node.parts.name, node.parts.hint);
    node.parts.heading.style.setProperty("--depth", Math.min(call.depth, 12));
    node.parts.stateIcon = icon("running");
    node.parts.stateText = make("span");
    node.parts.state = make("div", { class: "lane-state", role: "gridcell" }, node.parts.stateIcon, node.parts.stateText);
    node.parts.lane = make("div", { class: "lane", role: "gridcell" });
    node.append(node.parts.heading, node.parts.state, node.parts.lane);
    setAttribute(node, "aria-level", call.depth + 1);
    node.addEventListener("click", () => (call.loop ? this.toggle(node.call) : this.#select(call)));
    if (call.loop) node.classList.add("loop");
    return node;
  }

  toggle(call, collapse) {
    if (call.children.size === 0) return;
    collapse ??= call.loop ? this.opened.has(call.address) : !this.collapsed.has(call.address);
    if (call.loop) {
      if (collapse) this.opened.delete(call.address);
      else this.opened.add(call.address);
      return this.onTurn();
    }
    if (collapse) this.collapsed.add(call.address);
    else this.collapsed.delete(call.address);
    this.onTurn();
  }

  #update(node, call, selected, now) {
    node.call = call;
    const closed = call.loop ? !this.opened.has(call.address) : this.collapsed.has(call.address);
    const version = [call.version, this.#scaleKey, call.address === selected, closed, call === this.#origin].join();
    if (version === node.parts.version) {
      if (node.parts.live) this.#live.push({ node, call });
      return;
    }
    node.parts.version = version;
    const state = call.status;
    setClass(node, `callrow s-${state}` + (call.address === selected ? " selected" : "") + (call.loop ? " loop" : "") + (call === this.#origin ? " origin" : ""));
    setAttribute(node, "aria-selected", call.address === selected);
    setAttribute(node, "aria-expanded", call.children.size > 0 ? !closed : undefined);
    setClass(node.parts.twisty, "twisty" + (call.children.size === 0 ? " none" : closed ? "" : " expanded"));
    setIcon(node.parts.icon, call.kind);
    setText(node.parts.name, call.name);
    setAttribute(node.parts.heading, "title", call.address);
    setText(node.parts.hint, call.loop ? loops.hintOf(call) : [call === this.#origin ? "failed first" : "", hintOf(call)].filter(Boolean).join(" · "));
    drawState(node, call, now);
    this.#drawBars(node, call, now);
    node.parts.live = state === "running" || state === "waiting";
    if (node.parts.live) this.#live.push({ node, call });
  }

  #drawBars(node, call, now) {
    list(node.parts.lane, this.#bars(call, now), (bar) => bar.key, () => make("i"), (element, bar) => {
      setClass(element, "bar b-" + bar.kind);
      place(element, bar.x, bar.width);
      setAttribute(element, "title", bar.title);
    });
  }

  // #bars returns the bars for the attempts and waits of a call.
  #bars(call, now) {
    const bars = [];
    const add = (key, kind, from, to, title) => {
      const x0 = Math.max(0, this.#scale.x(from ?? this.#tree.first)); // if from is undefined, the attempt began before the loaded part
      const x1 = this.#scale.x(to);
      if (x1 >= 0) bars.push({ key, kind, x: x0, width: Math.max(0, x1 - x0), title });
    };
    if (call.loop) {
      for (const { key, kind, from, to, title } of loops.barsOf(call, now)) add(key, kind, from, to ?? now, title);
      return bars;
    }
    const all = call.attempts;
    const shown = all.slice(-mostBars);
    const hidden = all.length - shown.length + call.dropped;
    if (hidden > 0) add("h", "earlier", call.start, shown[0].start, plural(hidden, "earlier attempt"));
    const around = call.children.size > 0 ? " around" : "";
    shown.forEach((a, i) => {
      const key = all.length - shown.length + i + call.dropped;
      add("a" + key, a.outcome + around, a.start, a.end ?? now, attemptTitle(a, call, now));
      if (!a.wait) return;
      const { start, until, end, source: by } = a.wait;
      add("w" + key, by === "retry_after" ? "retry_after" : "backoff", start, end ?? Math.max(now, start), waitTitle(a.wait));
      if (!end && until > now) add("f" + key, "ahead", now, until, waitTitle(a.wait));
    });
    return bars;
  }
}

// latestWait returns when the last of the current waits ends.
function latestWait(rows, now) {
  let latest = now;
  for (const call of rows.flatMap((row) => row.loop?.slice(-200) ?? row)) {
    const wait = call.status === "waiting" && call.attempts.at(-1)?.wait;
    if (wait) latest = Math.max(latest, wait.until);
  }
  return latest;
}

function drawMarks(element, marks) {
  list(element, marks, (mark) => mark.key, (mark) => make("i", { class: mark.width === undefined ? "tick" : "break" }, make("span")), (node, mark) => {
    place(node, mark.x, mark.width);
    setText(node.firstChild, mark.text);
    setAttribute(node, "title", mark.title);
  });
}

const attemptTitle = (a, call, now) =>
  `attempt ${attempt(a.n, call.max)}: ${a.outcome === "retried" ? "failed" : a.outcome}, ${duration((a.end ?? now) - a.start)}` + (a.error ? `: ${a.error}` : "");

const waitTitle = (wait) => `waited for ${source(wait.source)}, ${duration(wait.delay)}`;

// hintOf returns a text that tells a call apart from similar calls.
function hintOf(call) {
  const parts = [];
  if (call.branch) parts.push(String(call.branch));
  if (call.nth > 1) parts.push("#" + call.nth);
  if (call.entry > 1) parts.push("in attempt " + call.entry);
  if (call.entry === 0) parts.push("in the precondition");
  if (call.kind === "compensation") parts.push(call.inDoubt ? "undoes a call in doubt" : "undoes it");
  if (call.cached) parts.push("from the cache");
  if (call.recalled) parts.push("recalled");
  if (call.kind === "group") {
    const { done, of } = progressOf(call);
    parts.push(`${done} of ${plural(of, "branch", "branches")} done`);
  }
  return parts.join(" · ");
}

function drawState(node, call, now) {
  const state = call.status;
  if (call.loop) {
    setIcon(node.parts.stateIcon, stateIcons[state] ?? "running");
    return setText(node.parts.stateText, loops.stateOf(call, now));
  }
  setIcon(node.parts.stateIcon, stateIcons[state] ?? "running");
  let text = "";
  const last = call.attempts.at(-1);
  const waiting = call.kind === "group" && state === "running" ? [...call.children].filter((child) => child.status === "waiting").length : 0;
  if (waiting) {
    text = `${waiting} wait`;
  } else if (state === "waiting" && last?.wait) {
    text = `${attempt(last.n + 1, call.max)} ${last.wait.until > now ? "in " + countdown(last.wait.until - now) : countdown(last.wait.until - now)}`;
  } else if (state === "running" && !last && !call.start) {
    text = "began earlier";
  } else if (state === "running" && last) {
    text = (last.n > 0 ? attempt(last.n, call.max) + " · " : "") + duration(now - last.start);
  } else if (state === "completed") {
    const retries = last ? last.n : 0;
    text = (!last ? "recalled" : call.start ? duration(call.end - call.start) : "began earlier") + (retries ? ` · ${plural(retries, "retry", "retries")}` : "");
  } else if (state === "failed") {
    text = reason(call.reason, call.max) || "failed";
  } else {
    text = state === "awaiting" ? (call.awaits === "time" || call.awaits === "signal" ? "waits" : "asks") : words(state);
  }
  setText(node.parts.stateText, text);
}

// The Tab key moves the focus to a single row, and the arrow keys move it from there to other rows.
byID("call-rows").addEventListener("focusin", ({ target, currentTarget }) => {
  for (const row of currentTarget.querySelectorAll('[tabindex="0"]')) row.setAttribute("tabindex", -1);
  target.closest("[data-call]")?.setAttribute("tabindex", 0);
});

function matcher({ text, kind, only }) {
  return (call) => {
    if (kind && call.kind !== kind) return false;
    if (only === "trouble" && !troubled(call)) return false;
    if (["waiting", "running", "failed"].includes(only) && call.status !== only) return false;
    if (!text) return true;
    return [call.name, call.address, call.error, call.errorClass, call.tag].some((part) => part?.toLowerCase().includes(text));
  };
}

function more(element, n, which, forgotten) {
  setHidden(element, n === 0 && forgotten === 0);
  setText(element, n > 0 ? `${n} ${which}: show them` : forgotten > 0 ? `${forgotten} earlier calls are no longer kept here` : "");
  setClass(element, n > 0 ? "more link" : "more");
}

function place(element, x, width) {
  const left = (x * 100).toFixed(1) + "%";
  if (element.style.left !== left) element.style.left = left;
  if (width === undefined) return;
  const w = (width * 100).toFixed(1) + "%";
  if (element.style.width !== w) element.style.width = w;
}
