// The way of the records to the page: a snapshot first, then the event stream
// from where the snapshot ends, which all tabs of the browser share. The browser
// comes back by itself after a connection is lost, with the ID of the last event;
// where it cannot, or does not notice that the connection is dead, the feed sees to it.

import { synchronize, parse } from "./clock.js";
import * as notify from "./notify.js";
import { drain, get, probe, Refusal, timedOut } from "./request.js";
import { pathOf, shared, Source } from "./source.js";

const quiet = 20_000; // after so long without an event the server is asked whether it is well
const stuck = 15_000; // how long the browser may take for one try to come back
const asleep = 8_000; // a tick that is so late was held up by sleep
const hiddenFor = 60_000; // a page that nobody sees for so long lets its connection go
const hiddenAlone = 1000; // the same where each tab has a connection of its own
const mostWait = 30_000;

// A Feed follows one stream until stop. Its options:
//
//	snapshot        the path of the snapshot
//	run             the run whose events it wants, with deltas; empty for all runs
//	cursorOf(body)  the cursor of the stream of all runs in a snapshot
//	behind(body)    whether a snapshot has something that no event has told
//	onSnapshot(body), onRecord(record), onDelta(delta), onElsewhere(body)
//	onDeleted(id, remade)   a run was deleted, and whether another has its ID
//	onState({name, attempt, message, until})
//	                loading, live, reconnecting, refused, missing or resting
//	onNotice({name, missed, reason, ms})
//	                resumed, gap or reset
export class Feed {
  #options;
  #source;
  #cursor = "";
  #turn = 0; // what an older turn still waits for is of no interest any more
  #cancel; // ends the requests and waits of this turn
  #state = { name: "" };
  #heard = 0; // when an event came, or the connection was made
  #lost = 0; // when the connection was lost; 0 while it is there
  #tried = 0; // when the browser last tried to come back
  #attempt = 0;
  #hiddenSince = Date.now();
  #ticked = 0;
  #ticker;
  #checking = false;
  #published; // what the server had published at the last check
  #reloads = []; // when gaps and resets made the page load anew

  constructor(options) {
    this.#options = options;
  }

  start() {
    this.#ticked = Date.now();
    this.#ticker = setInterval(() => this.#tick(), 1000);
    for (const [target, name] of this.#wakers) target.addEventListener(name, this);
    this.#load();
  }

  stop() {
    clearInterval(this.#ticker);
    for (const [target, name] of this.#wakers) target.removeEventListener(name, this);
    this.#begin();
  }

  // retry tries at once what is waited for.
  retry() {
    if (this.#state.name === "live") return;
    if (this.#lost) this.#comeBack();
    else this.#load();
  }

  // reload loads everything anew.
  reload() {
    this.#load();
  }

  get #wakers() {
    return [[globalThis, "online"], [globalThis, "offline"], [globalThis, "pageshow"], [globalThis, "pagehide"], [document, "visibilitychange"]];
  }

  handleEvent(event) {
    if (event.type === "visibilitychange" && document.hidden) {
      this.#hiddenSince = Date.now();
    } else if (event.type === "pagehide") {
      this.#rest(); // the page is left, and may come back
    } else if (event.type === "pageshow" && !event.persisted) {
      return; // it was loaded, not brought back
    } else if (this.#state.name === "resting") {
      this.#load(true);
    } else if (this.#state.name !== "live") {
      this.retry();
    } else {
      this.#check();
    }
  }

  // #begin ends what the turn before has left, and is the next turn.
  #begin() {
    this.#source?.close();
    this.#source = undefined;
    this.#cancel?.abort();
    this.#cancel = new AbortController();
    return ++this.#turn;
  }

  #show(name, more = {}) {
    this.#state = { name, ...more };
    this.#options.onState(this.#state);
  }

  // #load loads the snapshot and follows the stream from there.
  async #load(dead = false) {
    const turn = this.#begin();
    this.#lost = 0;
    if (this.#state.name !== "refused") this.#show("loading");
    for (let attempt = 1; ; attempt++) {
      try {
        if (dead) await drain(this.#cancel.signal);
        const { body, sent, received } = await get(this.#options.snapshot, { signal: this.#cancel.signal });
        if (turn !== this.#turn) return;
        synchronize(parse(body.now), sent, received);
        this.#cursor = this.#options.cursorOf(body);
        this.#options.onSnapshot(body);
        this.#open();
        return;
      } catch (error) {
        if (turn !== this.#turn) return;
        dead = timedOut(error);
        await this.#waitAfter(error, attempt, "loading");
        if (turn !== this.#turn) return;
      }
    }
  }

  get #wanted() {
    return { run: this.#options.run, after: this.#cursor };
  }

  #open() {
    this.#tried = Date.now();
    const source = (this.#source = new Source(this.#wanted, (type, body, id) => source === this.#source && this.#take(type, body, id)));
  }

  #take(type, body, id) {
    if (type === "open") return this.#opened();
    if (type === "error" || type === "closed") return this.#failed(type);
    this.#heard = Date.now();
    if (type === "delta") return this.#options.onDelta?.(body);
    if (type === "elsewhere") return this.#options.onElsewhere?.(body);
    if (type === "gap" || type === "reset") return this.#again(type, body);
    if (id) this.#cursor = id; // also over events that this page may not see
    if (type === "deleted") this.#options.onDeleted(body.run_id, Boolean(body.created_at));
    else if (type !== "cursor") this.#options.onRecord(body);
  }

  #opened() {
    this.#heard = Date.now();
    this.#published = undefined;
    if (this.#lost) this.#options.onNotice({ name: "resumed", ms: this.#heard - this.#lost });
    this.#lost = 0;
    this.#attempt = 0;
    this.#show("live");
  }

  // #again: what is lost to the stream is in the snapshot.
  async #again(name, { missed, reason }) {
    const turn = this.#begin();
    this.#options.onNotice({ name, missed, reason });
    // A server that has a gap each time must not be asked without a pause.
    const now = Date.now();
    this.#reloads = [...this.#reloads.filter((time) => now - time < 60_000), now];
    if (this.#reloads.length > 2) {
      this.#show("loading");
      await sleep(1000 * this.#reloads.length, this.#cancel.signal);
      if (turn !== this.#turn) return;
    }
    this.#load();
  }

  #failed(type) {
    this.#lost ||= Date.now();
    if (type === "closed") return this.#comeBack(); // the browser has given up, and never says why
    this.#tried = Date.now();
    this.#attempt++;
    this.#show("reconnecting", { attempt: this.#attempt });
  }

  // #comeBack connects anew after the last event, once the server says that it
  // would have us. The browser's other connections may be dead, too.
  async #comeBack(dead = false) {
    const turn = this.#begin();
    const { signal } = this.#cancel;
    this.#lost ||= Date.now();
    let drained = false;
    for (;;) {
      this.#attempt++;
      this.#show("reconnecting", { attempt: this.#attempt });
      try {
        if (dead && !drained) {
          drained = true;
          await drain(signal);
        }
        await probe(pathOf(this.#wanted), { timeout: drained ? 10_000 : 4000, signal });
        if (turn === this.#turn) this.#open();
        return;
      } catch (error) {
        if (turn !== this.#turn) return;
        dead = timedOut(error);
        if (!dead || drained) await this.#waitAfter(error, this.#attempt, "reconnecting");
        if (turn !== this.#turn) return;
      }
    }
  }

  // #waitAfter says what went wrong and waits before the next try.
  async #waitAfter(error, attempt, name) {
    const refused = error instanceof Refusal && (error.status === 401 || error.status === 403);
    let wait = Math.min(mostWait, 500 * 2 ** Math.min(attempt, 10)) * (0.75 + Math.random() / 2);
    if (error instanceof Refusal) wait = Math.max(wait, error.retryAfter, refused ? mostWait : 0);
    const until = Date.now() + wait;
    if (refused) this.#show("refused", { status: error.status, message: error.message, until });
    else if (error.status === 404) this.#show("missing", { message: error.message, until });
    else this.#show(name, { attempt, until, message: error instanceof Refusal ? error.message : undefined });
    await sleep(wait, this.#cancel.signal);
  }

  #tick() {
    const now = Date.now();
    const late = now - this.#ticked;
    this.#ticked = now;
    if (document.hidden) {
      if (this.#state.name === "live" && now - this.#hiddenSince > (shared() ? hiddenFor : hiddenAlone) && !(shared() && notify.isOn())) this.#rest();
    } else if (late > asleep && this.#state.name !== "refused") {
      // The machine was asleep. Whether the connection has survived that takes
      // longer to find out than a new one to make.
      if (this.#source) this.#comeBack(true);
      else this.retry();
    } else if (this.#state.name === "live" && now - this.#heard > quiet) {
      this.#check();
    } else if (this.#source?.connecting && now - this.#tried > stuck) {
      this.#comeBack();
    }
  }

  // #rest lets the connection go: browsers have few for one server, and other
  // pages need them.
  #rest() {
    this.#begin();
    this.#show("resting");
  }

  // #check finds out whether a stream without events is alive: the comments
  // that keep it open are not shown to pages.
  async #check() {
    if (this.#checking) return;
    this.#checking = true;
    const turn = this.#turn;
    try {
      const heard = this.#heard;
      const { body } = await get("health", { timeout: 6000, signal: this.#cancel.signal });
      if (turn !== this.#turn) return;
      const before = this.#published;
      this.#published = body.events;
      if (before !== body.events && (await this.#isBehind(heard)) && turn === this.#turn) this.#comeBack();
      else if (this.#heard === heard) this.#heard = Date.now(); // quiet, and rightly so
    } catch (error) {
      if (turn === this.#turn) this.#comeBack(timedOut(error));
    } finally {
      this.#checking = false;
    }
  }

  // #isBehind: something has happened, and no event has told.
  async #isBehind(heard) {
    const { snapshot, behind } = this.#options;
    const signal = this.#cancel.signal;
    const { body } = await get(snapshot.replace(/limit=\d+/, "limit=1"), { timeout: 10_000, signal });
    if (!behind(body)) return false;
    await sleep(2000, signal); // it may be on its way
    return this.#heard === heard && behind(body);
  }
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
