// All runs: the number of runs with each status, their questions, their waiting calls, and a row
// for each run.

import { make, list, setText, setClass, setAttribute, setHidden, setIcon, icon, byID } from "./dom.js";
import { isAnsweredHere } from "./answered.js";
import { now, parse } from "./clock.js";
import { Feed } from "./feed.js";
import * as fold from "./fold.js";
import { about, age, atTime, attempt, cost, count, countdown, duration, escaped, fullTime, plural, price, statuses, words } from "./format.js";
import * as questions from "./questions.js";
import { href, refine, route } from "./route.js";
import { get } from "./request.js";
import * as start from "./start.js";
import { History } from "./history.js";
import { Runs, isOver, known, matches } from "./runs.js";
import { Table, orderOf, picksRest, sorts } from "./table.js";
import "./views.js";
import { Waiting } from "./waiting.js";
import { Work } from "./work.js";

const soonest = 50; // runs that are requested first, so that rows appear soon even if many pages reconnect at once
const most = 200; // rows at first
const mostQuestions = 20;
const fewQuestions = 500; // more questions are requested if fewer open ones than this are known

export class Overview {
  element = byID("overview");
  title = "Reprise";
  #runs;
  #feed;
  #waiting = new Waiting();
  #rows = byID("run-rows");
  #announce;
  #changed;
  #asked = new Set();
  #table;
  #history;
  #work;
  #most = most;
  #shown = ""; // the hash of the address at the last drawing
  #later;
  #fill; // the timer for loading the runs after the first ones
  #again; // requests questions again
  #over = new AbortController(); // aborted when the user leaves the view
  #unlistedAsking = Infinity; // the number of runs with questions that are not loaded
  #asking = { left: 0, next: "" }; // how many runs with questions were not requested yet, and where their page begins
  #since; // when the oldest run began, for the titles of the totals

  constructor({ changed, loaded, onState, onNotice, onRecord, announce }) {
    this.#announce = announce;
    this.#changed = changed;
    this.#runs = new Runs(changed);
    this.#table = new Table(this.#runs, changed);
    this.#history = new History(changed);
    this.#work = new Work(changed);
    this.#feed = new Feed({
      snapshot: `api/runs?limit=${soonest}`,
      cursorOf: (body) => body.cursor,
      behind: (body) => this.#runs.behind(body),
      onSnapshot: (body) => {
        this.#runs.load(body);
        this.#table.load(body);
        loaded();
        this.#loadQuestions();
        clearTimeout(this.#fill);
        this.#fill = setTimeout(() => this.#runs.all.size < most && this.#table.more(), 1000);
      },
      onRecord: (record) => {
        this.#runs.take(record);
        if (record.event_type === "run") this.#table.touch();
        onRecord(record);
      },
      onDeleted: (id, remade) => {
        if (remade) this.#runs.renew(id);
        else this.#runs.remove(id);
        this.#table.touch();
      },
      onStopping: ({ run_id, stopping }) => this.#runs.askToStop(run_id, stopping),
      onState, onNotice,
    });
  }

  start() {
    this.#feed.start();
    this.#later = setTimeout(() => this.#askSince(), 1000);
    byID("runs-more").onclick = () => this.#showMore();
  }

  // #loadQuestions requests the runs with open questions, however long ago they were updated, up to
  // as many as the server sends at once. The rest are requested when these questions have been
  // answered. Until a request succeeds, only the questions of the newest runs are shown.
  async #loadQuestions({ left, next } = { left: Infinity }) {
    clearTimeout(this.#again);
    this.#asking = { left: 0, next: "" };
    const { signal } = this.#over;
    try {
      const { body } = await get("api/runs?asking=true&sort=updated&order=asc&limit=1000" + (next ? "&after=" + encodeURIComponent(next) : ""), { signal });
      this.#runs.merge(body.runs);
      this.#asking = { left: body.next ? Math.min(left, body.total) - body.runs.length : 0, next: body.next };
      this.#unlistedAsking = this.#asking.left;
      this.#changed();
    } catch (error) {
      clearTimeout(this.#again);
      const isRefused = error.status >= 400 && error.status < 500;
      if (!signal.aborted && !isRefused) this.#again = setTimeout(() => this.#loadQuestions({ left, next }), 5000);
    }
  }

  // #askSince requests the time at which the oldest run began. It is called once.
  async #askSince() {
    try {
      const { body } = await get("api/runs?sort=start&order=asc&limit=1");
      this.#since = parse(body.runs[0]?.created_at);
    } catch {
      // The totals are shown without it.
    }
  }

  #showMore() {
    this.#most += most;
    const shown = this.#rows.childElementCount;
    if (shown < this.#most) this.#table.more();
    this.draw(now());
  }

  stop() {
    clearTimeout(this.#later);
    clearTimeout(this.#fill);
    clearTimeout(this.#again);
    this.#over.abort();
    this.#feed.stop();
    this.#table.stop();
    byID("runs-more").onclick = undefined;
    questions.drop(byID("questions"));
  }

  retry() {
    this.#feed.retry();
  }

  // draw updates the whole view.
  draw(now) {
    const to = route();
    const filter = filterOf(to);
    this.#table.show(to);
    if (location.hash !== this.#shown) [this.#shown, this.#most] = [location.hash, most];
    const runs = [...this.#runs.all.values()];
    this.#drawTiles(runs, filter);
    const asked = questions.questionsOf(runs);
    // The form for an answer needs its schema, which is not known until the run's records were
    // read.
    const open = asked.filter((q) => !isAnsweredHere(q));
    if (this.#asking.left > 0 && open.length < fewQuestions) this.#loadQuestions(this.#asking);
    this.#runs.complete(open.slice(0, mostQuestions).map((q) => q.run));
    const ready = asked.filter((q) => !this.#runs.isPending(this.#runs.all.get(q.run)));
    questions.draw(byID("questions"), ready, this.#runs.can, { all: asked, most: mostQuestions, more: asked.length - ready.length, unknown: this.#asking.left, runOf: (id) => this.#runs.all.get(id) });
    this.#announceQuestions(asked);
    this.#waiting.draw(runs, filter, now);
    this.#history.draw(this.#runs.can);
    this.#work.draw(this.#runs.can);
    start.draw(this.#runs.can);
    this.#drawRuns(runs, filter, now);
    const waiting = this.#waiting.total;
    this.title = (asked.length ? `(${plural(asked.length, "question")}) ` : waiting ? `(${waiting} waiting) ` : "") + "Reprise";
  }

  // tick counts down.
  tick(now) {
    this.#waiting.tick(now);
    for (const node of this.#rows.children) {
      if (node.parts.next) setText(node.parts.left, countdown(node.parts.next - now));
    }
  }

  // #completeShown requests the missing figures for the rows that are visible on the screen.
  #completeShown() {
    const ids = [];
    for (const node of this.#rows.children) {
      const run = this.#runs.all.get(node.dataset.run);
      if (run?.status !== "running" || !this.#runs.isUnasked(run)) continue; // first, because the position makes the browser lay out the whole page
      const { top, bottom } = node.getBoundingClientRect();
      if (top > innerHeight) break;
      if (bottom > 0) ids.push(run.run_id);
    }
    this.#runs.complete(ids);
  }

  #announceQuestions(asked) {
    const fresh = asked.filter((q) => !this.#asked.has(q.run + q.id));
    this.#asked = new Set(asked.map((q) => q.run + q.id));
    if (fresh.length === 1) this.#announce(`Run ${fresh[0].run} asks: ${escaped(fresh[0].message)}`);
    else if (fresh.length > 1) this.#announce(plural(fresh.length, "new question"));
  }

  #drawTiles(runs, filter) {
    const { rest } = this.#runs;
    const since = this.#since;
    const counts = Object.fromEntries(Object.keys(statuses).map((status) => [status, rest[status] ?? 0]));
    const asking = Math.min(counts.paused, this.#unlistedAsking);
    counts.waiting += counts.paused - asking;
    counts.paused = asking;
    const sum = { tokens: 0, cost: 0, retries: 0, estimated: false };
    let all = !Object.values(rest).some((n) => n > 0); // whether the figures include all runs
    for (const run of runs) {
      counts[fold.shown(run)]++;
      all &&= known(run);
      sum.tokens += run.usage.input_tokens + run.usage.output_tokens;
      sum.cost += run.usage.cost;
      sum.estimated ||= run.usage.estimated;
      sum.retries += run.calls.retries;
    }
    const tiles = [
      ...Object.entries(statuses).map(([status, { text, icon, rare }]) => ({ status, text, icon, rare, value: count(counts[status]), some: counts[status] > 0 }))
        .filter(({ status, rare, some }) => !rare || some || filter.statuses.has(status)),
      { text: "retries", value: atLeast(count(sum.retries), all) },
      { text: "tokens", value: atLeast(about(sum) + count(sum.tokens), all) },
      { text: "cost", value: atLeast(sum.cost ? price(sum) : cost(0), all) },
    ];
    list(byID("tiles"), tiles, (tile) => tile.text, createTile, (node, tile) => {
      setText(node.parts.value, tile.value);
      if (!tile.status) {
        setAttribute(node, "title", (all ? "Of all runs that are kept" : "Of the runs that were read; there are more") + (since ? `, since ${fullTime(since)}` : ""));
        return;
      }
      setClass(node, `tile s-${tile.status}` + (tile.some ? " some" : ""));
      setAttribute(node, "aria-pressed", filter.statuses.has(tile.status));
    });
  }

  #drawRuns(runs, filter, now) {
    const picked = runs.filter((run) => picks(filter, run)).sort(orderOf(filter.to, now));
    const all = Object.values(this.#runs.rest).reduce((sum, n) => sum + n, runs.length);
    const total = this.#table.all ? all : this.#table.exact ? Math.max(this.#table.total, picked.length) : picked.length;
    const least = this.#table.problem ? "≥ " : ""; // the total counts only the runs that the page knows
    setText(byID("runs-total"), total === all ? count(all) : `${least}${count(total)} of ${count(all)}`);
    setText(byID("runs-since"), this.#since ? "since " + fullTime(this.#since) : "");
    list(this.#rows, picked.slice(0, this.#most), (run) => run.run_id, createRow, (node, run) => updateRow(node, run, now));
    const hidden = picked.length > this.#most || this.#table.next !== "";
    setHidden(byID("runs-more"), !hidden);
    const rest = total - Math.min(picked.length, this.#most);
    setText(byID("runs-more"), rest > 0 && this.#table.exact ? `Show more of ${count(rest)}` : "Show more");
    this.#completeShown();
    drawHead(filter.to);
    setHidden(byID("runs-problem"), !this.#table.problem);
    setText(byID("runs-problem"), this.#table.problem && "The server could not search: " + this.#table.problem);
    setHidden(byID("runs-none"), picked.length > 0);
    setText(byID("runs-none"), runs.length === 0 ? "No run yet. A run appears here as soon as it begins." : "No run matches. Esc clears the search.");
  }
}

// drawHead marks the column by which the runs are sorted, and shows the filters that are set.
function drawHead(to) {
  for (const button of byID("runs-head").querySelectorAll("[data-sort]")) {
    const sorted = to.sort === button.dataset.sort;
    setAttribute(button.parentElement, "aria-sort", sorted ? (to.order === "asc" ? "ascending" : "descending") : undefined);
  }
  setHidden(byID("order"), !sorts[to.sort]);
  setText(byID("order"), to.order === "asc" ? "lowest first" : "highest first");
  const set = filterNames.filter((name) => to[name]);
  setText(byID("filters-set"), set.length ? ": " + set.map((name) => `${name} ${to[name]}`).join(", ") : "");
}

export const filterNames = ["program", "version", "pipeline", "tag", "class", "parent", "since", "until"];

// The order of the list can be reversed.
byID("order").addEventListener("click", () => refine({ order: route().order === "asc" ? "" : "asc" }));

// The first click on a column sorts the runs by it, the highest first. The second click reverses the
// order, and the third restores the default order.
byID("runs-head").addEventListener("click", (event) => {
  const sort = event.target.closest("[data-sort]")?.dataset.sort;
  if (!sort) return;
  const to = route();
  if (to.sort !== sort) refine({ sort, order: "" });
  else if (to.order !== "asc") refine({ order: "asc" });
  else refine({ sort: "", order: "" });
});

// atLeast marks a sum as a lower bound unless it includes everything.
const atLeast = (text, all) => (all || text === "–" || text === "0" ? (all ? text : "–") : "≥ " + text);

// filterOf returns the filters in the address.
function filterOf(to) {
  const { status, kind, q } = to;
  return {
    to,
    statuses: new Set((status ?? "").split(",").filter((name) => statuses[name])),
    kind: kind ?? "",
    text: (q ?? "").toLowerCase(),
  };
}

function picks({ to, statuses, kind, text }, run) {
  if (!picksRest(to, run)) return false;
  if (statuses.size > 0 && !statuses.has(fold.shown(run))) return false;
  if (kind && ![...run.open.values()].some((call) => call.event_type === kind)) return false;
  return matches(run, text);
}

function createTile(tile) {
  const value = make("b", {}, tile.value);
  const node = tile.status
    ? make("button", { type: "button", class: "tile", "data-status": tile.status, onclick: () => toggleStatus(tile.status) }, icon(tile.icon), value, make("span", {}, tile.text))
    : make("div", { class: "tile fact" }, value, make("span", {}, tile.text));
  node.parts = { value };
  return node;
}

export function toggleStatus(status) {
  const { statuses: picked } = filterOf(route());
  if (!picked.delete(status)) picked.add(status);
  refine({ status: [...picked].join(",") });
}

function createRow(run) {
  const cell = (name, ...children) => make("span", { class: name, role: "cell" }, ...children);
  const first = (...children) => make("span", { class: "first" }, ...children);
  const second = (...children) => make("span", { class: "second" }, ...children);
  const node = make("div", { class: "row", role: "row", "data-run": run.run_id });
  node.parts = {};
  node.addEventListener("click", (event) => {
    if (!event.target.closest("a") && getSelection().isCollapsed) location.hash = href({ run: run.run_id });
  });
  node.parts.chip = make("span", { class: "chip" }, icon("running"), make("span"));
  node.parts.description = second();
  node.parts.icon = icon("run");
  node.parts.call = make("span", { class: "callname" });
  node.parts.attempt = make("span", { class: "attempt" });
  node.parts.left = make("span", { class: "left num" });
  node.parts.nowMore = second();
  node.parts.class = make("span", { class: "class" });
  node.parts.errorCall = make("span");
  node.parts.message = second();
  node.parts.calls = first();
  node.parts.retries = second();
  node.parts.tokens = first();
  node.parts.cost = second();
  node.parts.age = first();
  node.parts.lasted = second();
  node.append(
    cell("status", node.parts.chip),
    cell("run", first(make("a", { class: "mono id", href: href({ run: run.run_id }), "data-row": true }, run.run_id)), node.parts.description),
    cell("now", first(node.parts.icon, node.parts.call, node.parts.attempt, node.parts.left), node.parts.nowMore),
    cell("error", first(node.parts.class, node.parts.errorCall), node.parts.message),
    cell("calls num", node.parts.calls, node.parts.retries),
    cell("usage num", node.parts.tokens, node.parts.cost),
    cell("age num", node.parts.age, node.parts.lasted));
  return node;
}

function updateRow(node, run, now) {
  const status = fold.shown(run);
  const { text, icon } = statuses[status] ?? { text: run.status, icon: "run" };
  setClass(node, "row s-" + status);
  setAttribute(node, "data-status", status);
  setIcon(node.parts.chip.firstChild, icon);
  setText(node.parts.chip.lastChild, text);
  setText(node.parts.description, run.description || run.pipeline || "");
  setAttribute(node.parts.description, "title", run.description);
  drawNow(node, run, now);
  drawError(node, run, now);
  drawFigures(node, run);
  const since = parse(run.created_at);
  const until = parse(run.updated_at);
  setText(node.parts.age, age(now - (isOver(run) ? until : since)) + (isOver(run) ? " ago" : ""));
  setText(node.parts.lasted, !isOver(run) ? "" : !known(run) && hasCrashed(run) ? "–" : "took " + duration(until - since));
}

// hasCrashed reports whether the run's process ended without closing it.
const hasCrashed = (run) => run.status === "interrupted" && run.stop?.reason === "crash";

// drawFigures shows a run's figures. It shows unknown figures as "–", not as 0.
function drawFigures(node, run) {
  const { started, completed, failed, retries, attempts } = run.calls;
  const lost = !known(run) && hasCrashed(run); // its last figures predate the opening that crashed
  const all = known(run) || (run.status !== "running" && !lost); // the figures of a closed run are complete
  const tokens = run.usage.input_tokens + run.usage.output_tokens;
  const some = attempts > 0 || tokens > 0 || (lost && started > 0); // some figures of a partly known run are known
  if (!known(run) && (all || (lost && some))) setText(node.parts.calls, (all ? "" : "≥ ") + plural(started, "call") + (failed ? `, ${count(failed)} failed` : ""));
  else setText(node.parts.calls, !all && !some ? "–" : (all ? "" : "≥ ") + (failed ? `${count(completed)} ok, ${count(failed)} failed` : `${count(completed)} ok`));
  setText(node.parts.retries, retries ? plural(retries, "retry", "retries") : "");
  setText(node.parts.tokens, !all && !some ? "–" : (all ? "" : "≥ ") + about(run.usage) + count(tokens));
  setAttribute(node.parts.tokens, "title", all ? `${run.usage.input_tokens} in, ${run.usage.output_tokens} out` + (run.usage.estimated ? ", in part estimated" : "") : "Not all records of this run were read");
  setText(node.parts.cost, run.usage.cost ? price(run.usage) : "");
}

// drawNow shows the call that waits or runs or, if there is none, what the run asks or waits for.
function drawNow(node, run, now) {
  const [next] = fold.waiting(run);
  const runs = fold.current(run);
  const call = isOver(run) || run.status === "paused" ? undefined : (next ?? runs);
  const parked = fold.isParked(run);
  node.parts.next = next && call ? parse(next.next_attempt_at) : parked ? parse(run.due_at) : 0;
  setHidden(node.parts.icon, !call && !fold.questionsOf(run).some((question) => !question.answered));
  setHidden(node.parts.left, !node.parts.next);
  if (call) {
    setIcon(node.parts.icon, call.event_type);
    setText(node.parts.call, call.name);
    setText(node.parts.attempt, call.max_attempts === 1 || call.max_attempts === undefined ? "" : attempt(call.retry_attempt, call.max_attempts));
    setText(node.parts.left, node.parts.next ? countdown(node.parts.next - now) : "");
    setText(node.parts.nowMore, fold.stoppingText(run) || moreOf(run, next, runs));
  } else {
    const open = fold.questionsOf(run).filter((question) => !question.answered);
    const [question] = open;
    if (question) setIcon(node.parts.icon, "question");
    setText(node.parts.call, question ? escaped(question.message) : run.status === "queued" ? queuedText(run, now) : parked ? parkedText(run, now) : fold.stoppingText(run) || fold.stopText(run));
    setText(node.parts.attempt, "");
    setText(node.parts.left, node.parts.next ? countdown(node.parts.next - now) : "");
    setText(node.parts.nowMore, question && open.length > 1 ? `and ${plural(open.length - 1, "more question")}` : parked ? (next?.address ?? "") : "");
  }
}

// parkedText returns a text about what a parked run waits for.
function parkedText(run, now) {
  if (run.due_at) return `waits until ${atTime(parse(run.due_at), now)}`;
  return run.calls.asking > 0 ? "waits for a signal" : "waits";
}

// queuedText returns a text about when a queued run begins.
function queuedText(run, now) {
  const due = parse(run.due_at);
  return due > now ? `begins in ${duration(due - now)}` : "waits for a runner";
}

function moreOf(run, next, runs) {
  if (!next) return run.calls.active > 1 && runs ? runs.address : "";
  const parts = [];
  if (run.calls.waiting > 1) parts.push(`${run.calls.waiting - 1} more wait`);
  const running = run.calls.active - run.calls.waiting;
  if (running > 1 && runs) parts.push(`${runs.name} runs`);
  return parts.join(", ") || next.address;
}

// drawError shows the last error. If the run has completed, the error is not highlighted, because
// the run has recovered from it.
function drawError(node, run, now) {
  const failed = run.last_error;
  const isOvercome = run.status === "completed";
  setHidden(node.parts.class, !failed);
  setText(node.parts.errorCall, failed ? `${isOvercome ? "earlier, " : ""}${failed.name}, ${age(now - parse(failed.time))} ago` : "");
  setText(node.parts.class, failed ? words(failed.error_class) : "");
  setClass(node.parts.class, failed && !isOvercome ? `class ${failed.error_class}${failed.will_retry ? "" : " final"}` : "class");
  setText(node.parts.message, failed?.original_error ?? (known(run) || run.status !== "failed" ? "" : "not read yet"));
  setAttribute(node.parts.message, "title", failed?.original_error);
}
