// One run: its state, its questions, and its calls over time.

import { make, list, setText, setClass, setAttribute, setHidden, setIcon, icon, byID } from "./dom.js";
import { CallTree, origin } from "./calls.js";
import { parse } from "./clock.js";
import { Consumption } from "./consumption.js";
import * as detail from "./detail.js";
import { Feed } from "./feed.js";
import * as fold from "./fold.js";
import { age, clockTime, count, duration, fullTime, plural, price, reason as reasonOf, statuses, tokens, words } from "./format.js";
import * as continuing from "./continue.js";
import { openCancel, openInterrupt } from "./interrupt.js";
import { Producing } from "./producing.js";
import * as questions from "./questions.js";
import { recordKinds, Records } from "./records.js";
import { runPath } from "./request.js";
import { href, refine, route } from "./route.js";
import { isOver } from "./runs.js";
import { Timeline } from "./timeline.js";
import { Window } from "./window.js";
import * as who from "./who.js";

const ranges = { "": "all", 600: "10 m", 60: "1 m", loaded: "loaded" }; // in seconds

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
  #window;
  #deleted = false;
  #remade = 0; // creation time of this run, if the view showed a deleted run with its ID before
  #seeking = false; // nextFailure is searching for a failed call
  #hole = 0; // the number of the record whose predecessors were missing at the last reload
  #feed;
  #changed;
  #announce;

  constructor(id, { changed, loaded, onState, onNotice, onRecord, announce }) {
    this.#id = id;
    this.#changed = changed;
    this.#announce = announce;
    this.#records = new Records((address) => this.select(address));
    this.#producing = new Producing((address) => this.select(address));
    this.#window = new Window(id, (records, omitted) => (records ? this.#showPart(records, omitted) : this.#feed.reload()));
    this.#consumption = new Consumption(id, changed);
    this.#timeline = new Timeline((call) => this.select(call.address));
    this.#timeline.onTurn = changed;
    this.#feed = new Feed({
      snapshot: runPath(id) + "?limit=5000",
      run: id,
      cursorOf: (body) => body.all,
      behind: (body) => body.run.last_seq > (this.#run?.last_seq ?? 0),
      onSnapshot: (body) => {
        this.#load(body);
        loaded();
      },
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
      onDeleted: (_, remade) => (remade ? this.#feed.reload() : this.#delete()),
      onStopping: ({ stopping }) => {
        if (this.#run) fold.askToStop(this.#run, stopping);
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
    this.#window.start();
    this.#feed.start();
  }

  stop() {
    this.#feed.stop();
    this.#timeline.stop();
    this.#window.stop();
    detail.draw(undefined);
    questions.drop(byID("run-questions"));
    continuing.draw(undefined);
    for (const id of ["record-rows", "run-facts", "producing-rows"]) list(byID(id), []);
    for (const id of ["run-status", "run-description"]) byID(id).replaceChildren();
    for (const id of ["run-questions", "run-banner", "producing", "consumption", "interrupt", "cancel", "records-more"]) setHidden(byID(id), true);
    setClass(byID("run-status"), "chip");
    setText(byID("records-total"), "0");
  }

  retry() {
    this.#feed.retry();
  }

  get canInterrupt() {
    return !this.#deleted && this.#can.interrupt && this.#run?.status === "running";
  }

  interrupt() {
    if (this.canInterrupt && !this.#run.stopping) openInterrupt(this.#id, this.#run.calls.active, () => this.#feed.reload());
  }

  get canCancel() {
    return !this.#deleted && this.#can.cancel && this.#run && !fold.isSettled(this.#run);
  }

  get #isCancelled() {
    return this.#run?.stopping?.reason === "cancel";
  }

  cancel() {
    if (this.canCancel && !this.#isCancelled) openCancel(this.#id, () => this.#feed.reload());
  }

  #load(body) {
    if (this.#run?.last_seq > 0 && body.run.created_at !== this.#run.created_at) this.#renew(body.run);
    this.#run = fold.adopt(body.run);
    this.#deleted = false;
    this.#can = body.can;
    who.learn(body.can);
    this.#producing.clear();
    if (this.#window.before === 0) {
      this.#window.took(body.records, body.omitted);
      this.#showPart(body.records, body.omitted);
    }
    this.#changed();
  }

  // #showPart shows the records of one part of the run.
  #showPart(records, omitted) {
    this.#tree = new CallTree(omitted > 0 ? parse(this.#run.created_at) : 0);
    this.#records.clear();
    this.#timeline.page = 0;
    for (const record of records) {
      this.#tree.take(record);
      this.#records.take(record);
    }
    if (this.#run.status !== "running" && this.#window.before === 0) this.#tree.close();
    this.#changed();
  }

  // #renew is called when the shown run was deleted and another run has its ID.
  #renew(run) {
    this.#remade = parse(run.created_at);
    this.#window.before = 0;
    this.#announce("The run was deleted, and another run has its ID.");
  }

  // #delete shows that the run was deleted. The page keeps showing what it has loaded.
  #delete() {
    this.#deleted = true;
    this.#announce("The run was deleted.");
    this.#changed();
  }

  #take(record) {
    if (!this.#run) return;
    if (this.#deleted) return void this.#feed.reload(); // another run has its ID
    let result = fold.take(this.#run, record);
    if (result === fold.hole && this.#hole === record.seq) {
      this.#run.last_seq = record.seq - 1; // no process has the records before this one
      result = fold.take(this.#run, record);
    }
    if (result === fold.hole || result === fold.reopened) {
      this.#hole = record.seq; // another process wrote the missing records, or a crash lost them
      return void this.#feed.reload();
    }
    if (result !== fold.taken) return;
    this.#keep(record);
    this.#producing.end(record);
    if (record.event_type === "run" && record.execution_status !== "started") this.#announce(`The run is ${statuses[this.#run.status]?.text ?? this.#run.status}.`);
    this.#changed();
  }

  #keep(record) {
    if (this.#window.before > 0) return; // the user is looking at another part
    this.#tree.take(record);
    this.#records.take(record);
  }

  // select shows the details of a call, or hides them if they are shown.
  select(address) {
    refine({ call: address === route().call ? undefined : address });
  }

  // toggle shows or hides the calls inside a call.
  toggle(address, collapse) {
    const call = this.#tree.calls.get(address) ?? this.#timeline.line(address);
    if (call) this.#timeline.toggle(call, collapse);
  }

  // nextFailure selects the next failed call or, if by is -1, the previous one: in the loaded part
  // if there is one, or else in the nearest part that contains a failed call. After the last failed
  // call, it continues with the first.
  async nextFailure(by) {
    const run = this.#run;
    if (!run || this.#seeking) return;
    this.#seeking = true;
    let failed = this.#failed();
    const end = () => (by > 0 ? 0 : failed.length - 1);
    const here = failed.findIndex(({ address }) => address === route().call);
    let next = here < 0 ? end() : here + by;
    for (let parts = this.#window.parts(run.last_seq); !failed[next] && run.calls.failed > 0 && parts > 0; parts--) {
      await this.#window.step(by, run.last_seq);
      if (route().run !== this.#id) return; // the user has left the run
      failed = this.#failed();
      next = end();
    }
    this.#seeking = false;
    const call = failed[next] ?? failed[end()];
    if (call) refine({ call: call.address });
    else this.#announce("No call failed.");
  }

  #failed() {
    return [...this.#tree.calls.values()].filter((call) => call.status === "failed");
  }

  draw(now) {
    const run = this.#run;
    if (!run) return;
    const { call, q, kind, only, range, records } = route();
    const asked = fold.questionsOf(run).map((question) => ({ run: run.run_id, ...question }));
    this.#drawHead(run, now);
    this.#drawBanner(run);
    continuing.draw(this.#deleted ? undefined : run, this.#can, () => this.#feed.reload());
    questions.draw(byID("run-questions"), this.#deleted ? [] : asked, this.#can, { linked: false, runOf: () => run });
    this.#producing.draw(run.status === "running");
    this.#timeline.draw(this.#tree, {
      filter: { text: (q ?? "").toLowerCase(), kind, only },
      selected: call, range: range === "loaded" ? range : Number(range ?? 0) * 1000,
      running: run.status === "running" && this.#window.before === 0, total: run.calls.started,
      ended: this.#window.before > 0 ? parse(run.updated_at) : 0, origin: run.status === "failed" ? origin(this.#tree) : undefined,
    }, now);
    detail.draw(this.#tree.calls.get(call), now, () => this.select(call), (address) => continuing.openFork(this.#id, address, this.#can), { calls: this.#tree.calls.values(), parent: run.parent_run_id });
    this.#window.draw(run, this.#tree);
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
    byID("interrupt").disabled = Boolean(run.stopping);
    byID("cancel").disabled = this.#isCancelled;
    setText(byID("run-description"), run.description ?? "");
    setAttribute(byID("run-description"), "title", run.description); // the element shows only three lines
    const since = parse(run.created_at);
    const until = parse(run.updated_at);
    const { calls, usage } = run;
    const facts = [
      [run.last_seq > 0 ? "Continues" : "Begins", run.status === "queued" ? (run.due_at ? `${fullTime(parse(run.due_at))}, ${dueIn(run, now)}` : "when a runner has room for it") : ""],
      ["Continues", run.status === "paused" && run.due_at ? `${fullTime(parse(run.due_at))}, ${dueIn(run, now)}` : ""],
      [run.status === "queued" && !run.last_seq ? "Queued" : "Began", since ? `${clockTime(since)}, ${age(now - since)} ago` : "", since ? fullTime(since) : undefined],
      isOver(run) ? ["Took", duration(until - since)] : ["Newest record", run.last_seq > 0 ? `${age(now - until)} ago` : ""],
      ["Calls", [`${count(calls.completed)} ok`, calls.failed && `${count(calls.failed)} failed`, calls.active - calls.waiting > 0 && `${calls.active - calls.waiting} run`, calls.waiting && `${calls.waiting} wait`, calls.asking && `${calls.asking} ask`, calls.stopped && `${calls.stopped} stopped`].filter(Boolean).join(", ")],
      ["Retries", calls.retries ? count(calls.retries) : ""],
      ["Tokens", usage.input_tokens + usage.output_tokens ? tokens(usage) : ""],
      ["Cost", usage.cost ? price(usage) : ""],
      ["Recalled", calls.restored ? plural(calls.restored, "call") : ""],
      ["Pipeline", run.pipeline], ["Tags", run.tags?.join(", ")],
      ["Worker", run.status === "running" ? run.worker : ""],
      ["Program", run.program && run.program + (run.program_version ? ", version " + run.program_version : "")],
      ["Forked from", run.parent_run_id, undefined, { run: run.parent_run_id }], ["Called by", run.called_by, undefined, { run: run.called_by }],
      ["Forks", "list them", undefined, { parent: run.run_id }],
      ["Counted", run.partial ? "from the middle of the run" : ""],
    ].filter(([, value]) => value);
    list(byID("run-facts"), facts, ([name]) => name, ([name]) => make("div", {}, make("dt", {}, name), make("dd")), (node, [, value, title, to]) => {
      if (to && node.lastChild.textContent !== value) node.lastChild.replaceChildren(make("a", { href: href(to) }, value));
      else if (!to) setText(node.lastChild, value);
      setAttribute(node.lastChild, "title", title);
    });
  }

  // #drawBanner shows why a run has stopped, or who has asked it to stop. A completed run has no
  // banner.
  #drawBanner(run) {
    const banner = byID("run-banner");
    const last = this.#tree.openings.at(-1);
    const next = run.status === "running" ? ". The run stops when its calls return." : ". It ends when its calls are compensated.";
    let text = run.stopping ? fold.stoppingText(run) + next : fold.stopText(run);
    if (run.status === "failed") {
      const { error, errorClass, reason } = last?.error ? last : { error: run.last_error?.original_error, errorClass: run.last_error?.error_class };
      const why = [words(errorClass), reason === "exhausted" ? "" : reasonOf(reason)]; // the error contains the number of attempts
      if (error) text = `Failed (${[...new Set(why)].filter(Boolean).join(", ")}): ${error}`;
    }
    if (this.#remade) text = [`The run that was shown here was deleted. This is another run with the same ID, created at ${fullTime(this.#remade)}.`, text].filter(Boolean).join(" ");
    if (this.#deleted) text = "This run was deleted. The page shows what it had loaded before.";
    setHidden(banner, !text);
    setClass(banner, "banner s-" + (this.#deleted ? "failed" : run.status));
    setText(banner, text);
  }
}

const dueIn = (run, now) => (parse(run.due_at) > now ? "in " + duration(parse(run.due_at) - now) : "now");

// drawSegments shows buttons for choosing one value, which is stored in the address.
function drawSegments(element, choices, name) {
  element.replaceChildren(...Object.entries(choices).sort().map(([value, text]) =>
    make("button", { type: "button", role: "radio", "aria-checked": "false", "data-value": value, onclick: () => refine({ [name]: value === "all" ? "" : value }) }, text)));
}

function checkSegments(element, value) {
  for (const button of element.children) {
    setAttribute(button, "aria-checked", String(button.dataset.value === value));
  }
}
