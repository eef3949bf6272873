// One run: how it stands, what it asks, and its calls over time.

import { make, list, setText, setClass, setAttribute, setHidden, setIcon, icon, byID } from "./dom.js";
import { CallTree } from "./calls.js";
import { parse } from "./clock.js";
import { Consumption } from "./consumption.js";
import * as detail from "./detail.js";
import { Feed } from "./feed.js";
import * as fold from "./fold.js";
import { age, clockTime, count, duration, fullTime, plural, price, reason as reasonOf, statuses, tokens, words } from "./format.js";
import * as goon from "./goon.js";
import { openCancel, openInterrupt } from "./interrupt.js";
import { Producing } from "./producing.js";
import * as questions from "./questions.js";
import { recordKinds, Records } from "./records.js";
import { runPath } from "./request.js";
import { refine, route } from "./route.js";
import { isOver } from "./runs.js";
import { Timeline } from "./timeline.js";
import * as who from "./who.js";

const ranges = { "": "all", 600: "10 m", 60: "1 m" }; // in seconds

export class RunView {
  element = byID("run");
  title = "Reprise";
  #id;
  #run;
  #tree = new CallTree();
  #records;
  #producing;
  #consumption;
  #timeline;
  #can = { interrupt: false, cancel: false, answer: false };
  #omitted = 0;
  #feed;
  #changed;
  #announce;

  constructor(id, { changed, onState, onNotice, onRecord, announce }) {
    this.#id = id;
    this.#changed = changed;
    this.#announce = announce;
    this.#records = new Records((address) => this.select(address));
    this.#producing = new Producing((address) => this.select(address));
    this.#consumption = new Consumption(id, changed);
    this.#timeline = new Timeline((call) => this.select(call.address));
    this.#timeline.onTurn = changed;
    this.#feed = new Feed({
      snapshot: runPath(id) + "?limit=5000",
      stream: "events?deltas=true&run=" + encodeURIComponent(id),
      behind: (body) => body.run.last_seq > (this.#run?.last_seq ?? 0),
      onSnapshot: (body) => this.#load(body),
      onRecord: (record) => {
        this.#take(record);
        onRecord(record);
      },
      onDelta: (delta) => {
        this.#producing.take(delta);
        this.#changed();
      },
      onElsewhere: ({ message }) => {
        this.#producing.away(message);
        this.#changed();
      },
      onState, onNotice,
    });
  }

  start() {
    setText(byID("run-title"), this.#id);
    drawSegments(byID("range"), ranges, "range");
    drawSegments(byID("record-kinds"), { ...recordKinds }, "records");
    byID("interrupt").onclick = () => this.interrupt();
    byID("cancel").onclick = () => this.cancel();
    this.#feed.start();
  }

  stop() {
    this.#feed.stop();
    this.#timeline.stop();
    detail.draw(undefined);
    questions.drop(byID("run-questions"));
    goon.draw(undefined);
    for (const id of ["record-rows", "run-facts", "producing-rows"]) list(byID(id), []);
    questions.drop(byID("run-questions"));
    for (const id of ["run-status", "run-description"]) byID(id).replaceChildren();
    for (const id of ["run-questions", "run-banner", "producing", "consumption", "interrupt", "cancel", "records-more"]) setHidden(byID(id), true);
    setClass(byID("run-status"), "chip");
    setText(byID("records-total"), "0");
  }

  retry() {
    this.#feed.retry();
  }

  get canInterrupt() {
    return this.#can.interrupt && this.#run?.status === "running";
  }

  interrupt() {
    if (this.canInterrupt) openInterrupt(this.#id, this.#run.calls.active);
  }

  get canCancel() {
    return this.#can.cancel && this.#run && !fold.isSettled(this.#run);
  }

  cancel() {
    if (this.canCancel) openCancel(this.#id);
  }

  #load(body) {
    this.#run = fold.adopt(body.run);
    this.#can = body.can;
    who.learn(body.can);
    this.#omitted = body.omitted;
    this.#tree = new CallTree();
    this.#records.clear();
    this.#producing.clear();
    for (const record of body.records) this.#keep(record);
    this.#changed();
  }

  #take(record) {
    if (!this.#run) return;
    let result = fold.take(this.#run, record);
    if (result === fold.hole) {
      this.#run.last_seq = record.seq - 1; // the stream would have told of what is to be had
      result = fold.take(this.#run, record);
    }
    if (result !== fold.taken) return;
    this.#keep(record);
    this.#producing.end(record);
    if (record.event_type === "run" && record.execution_status !== "started") this.#announce(`The run is ${statuses[this.#run.status]?.text ?? this.#run.status}.`);
    this.#changed();
  }

  #keep(record) {
    this.#tree.take(record);
    this.#records.take(record);
  }

  // select shows a call in particular, or none.
  select(address) {
    refine({ call: address === route().call ? undefined : address });
  }

  // toggle opens or closes what is inside of a call.
  toggle(address, collapse) {
    const call = this.#tree.calls.get(address);
    if (call) this.#timeline.toggle(call, collapse);
  }

  draw(now) {
    const run = this.#run;
    if (!run) return;
    const { call, q, kind, only, range, records } = route();
    const asked = run.questions.map((question) => ({ run: run.run_id, ...question }));
    this.#drawHead(run, now);
    this.#drawBanner(run);
    goon.draw(run, this.#can);
    questions.draw(byID("run-questions"), asked, this.#can, { linked: false, runOf: () => run });
    this.#producing.draw(run.status === "running");
    this.#timeline.draw(this.#tree, {
      filter: { text: (q ?? "").toLowerCase(), kind, only },
      selected: call, range: Number(range ?? 0) * 1000, running: run.status === "running",
    }, now);
    detail.draw(this.#tree.calls.get(call), now, () => this.select(call), (address) => goon.openFork(this.#id, address, this.#can));
    this.#consumption.draw(run);
    this.#records.draw(records, run.last_seq);
    checkSegments(byID("range"), range ?? "");
    checkSegments(byID("record-kinds"), records ?? "all");
    this.title = `${statuses[fold.shown(run)]?.text ?? run.status}: ${run.run_id} · Reprise`;
  }

  tick(now) {
    if (!this.#run) return;
    this.#timeline.tick(now);
    const call = this.#tree.calls.get(route().call);
    if (call) detail.tick(call, now);
  }

  #drawHead(run, now) {
    const status = fold.shown(run);
    const chip = byID("run-status");
    if (!chip.firstChild) chip.append(icon("running"), make("span"));
    setClass(chip, "chip s-" + status);
    setIcon(chip.firstChild, statuses[status]?.icon ?? "run");
    setText(chip.lastChild, statuses[status]?.text ?? run.status);
    setHidden(byID("interrupt"), !this.canInterrupt);
    setHidden(byID("cancel"), !this.canCancel);
    setText(byID("run-description"), run.description ?? "");
    setAttribute(byID("run-description"), "title", run.description); // which is cut after three lines
    const since = parse(run.created_at);
    const until = parse(run.updated_at);
    const { calls, usage } = run;
    const facts = [
      ["Began", since ? `${clockTime(since)}, ${age(now - since)} ago` : "", since ? fullTime(since) : undefined],
      [isOver(run) ? "Took" : "Newest record", isOver(run) ? duration(until - since) : `${age(now - until)} ago`],
      ["Calls", [`${count(calls.completed)} ok`, calls.failed && `${count(calls.failed)} failed`, calls.active - calls.waiting > 0 && `${calls.active - calls.waiting} run`, calls.waiting && `${calls.waiting} wait`, calls.asking && `${calls.asking} ask`, calls.stopped && `${calls.stopped} stopped`].filter(Boolean).join(", ")],
      ["Retries", calls.retries ? count(calls.retries) : ""],
      ["Tokens", usage.input_tokens + usage.output_tokens ? tokens(usage) : ""],
      ["Cost", usage.cost ? price(usage) : ""],
      ["Recalled", calls.restored ? plural(calls.restored, "call") : ""],
      ["Pipeline", run.pipeline], ["Tags", run.tags?.join(", ")], ["Forked from", run.parent_run_id], ["Called by", run.called_by],
      ["Not loaded", this.#omitted ? plural(this.#omitted, "earlier record") : ""],
      ["Counted", run.partial ? "from the middle of the run" : ""],
    ].filter(([, value]) => value);
    list(byID("run-facts"), facts, ([name]) => name, ([name]) => make("div", {}, make("dt", {}, name), make("dd")), (node, [, value, title]) => {
      setText(node.lastChild, value);
      setAttribute(node.lastChild, "title", title);
    });
  }

  // #drawBanner says why a run is over, if that is no good news.
  #drawBanner(run) {
    const banner = byID("run-banner");
    const last = this.#tree.openings.at(-1);
    let text = fold.stopText(run);
    if (run.status === "failed") {
      const { error, errorClass, reason } = last?.error ? last : { error: run.last_error?.original_error, errorClass: run.last_error?.error_class };
      if (error) text = `Failed (${[...new Set([words(errorClass), reasonOf(reason)])].filter(Boolean).join(", ")}): ${error}`;
    }
    setHidden(banner, !text);
    setClass(banner, "banner s-" + run.status);
    setText(banner, text);
  }
}

// drawSegments makes a choice of one; the address keeps it.
function drawSegments(element, choices, name) {
  element.replaceChildren(...Object.entries(choices).sort().map(([value, text]) =>
    make("button", { type: "button", role: "radio", "aria-checked": "false", "data-value": value, onclick: () => refine({ [name]: value === "all" ? "" : value }) }, text)));
}

function checkSegments(element, value) {
  for (const button of element.children) {
    setAttribute(button, "aria-checked", String(button.dataset.value === value));
  }
}
