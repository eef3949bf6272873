// The feed brings records to the page: first a snapshot, then the events after it, from a stream
// that all tabs of the browser share. When the connection is lost, the browser reconnects by
// itself, with the ID of the last event. If the browser cannot reconnect, or does not notice that
// the connection is dead, the feed reconnects.

import { synchronize, parse } from "./clock.js";
import * as notify from "./notify.js";
import { drain, get, probe, Refusal, timedOut } from "./request.js";
import { pathOf, shared, Source } from "./source.js";

const quiet = 20_000; // after this long without an event, the feed checks whether the server is alive
const stuck = 15_000; // the time that the browser may take for one attempt to reconnect
const asleep = 8_000; // if a tick is this late, the machine was asleep
const hiddenFor = 60_000; // a page that is hidden for this long closes its connection
const hiddenAlone = 1000; // the same, for tabs that each have their own connection
const mostWait = 30_000;

// A Feed follows one stream until stop. Its options:
//
//	snapshot        the path of the snapshot
//	run             the run whose events are wanted, with deltas; empty for all runs
//	cursorOf(body)  returns a snapshot's cursor in the stream of all runs
//	behind(body)    reports whether a snapshot contains something that no event has reported
//	onSnapshot(body), onRecord(record), onDelta(delta), onElsewhere(body)
//	onDeleted(id, remade)   a run was deleted; remade is set if another run has its ID
//	onStopping({run_id, stopping})   somebody has asked the run to stop
//	onState({name, attempt, message, until})
//	                loading, live, reconnecting, refused, missing or resting
//	onNotice({name, missed, reason, ms})
//	                resumed, gap or reset
export class Feed {
  #options;
  #source;
  #cursor = "";
  #turn = 0; // the results of earlier turns are ignored when they arrive
  #cancel; // ends the requests and waits of this turn
  #state = { name: "" };
  #heard = 0; // when the last event arrived or, if later, the connection was made
  #lost = 0; // when the connection was lost; 0 while there is one
  #tried = 0; // when the browser last tried to reconnect
  #attempt = 0;
  #hiddenSince = Date.now();
  #ticked = 0;
  #ticker;
  #checking = false;
  #published; // the number of events that the server had published at the last check
  #reloads = []; // when the page reloaded everything because of gaps and resets

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

  // retry ends the wait before the next attempt.
  retry() {
    if (this.#state.name === "live") return;
    if (this.#lost) this.#comeBack();
    else this.#load();
  }

  // reload loads everything again.
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
      this.#rest(); // the user leaves the page, but the browser may show it again
    } else if (event.type === "pageshow" && !event.persisted) {
      return; // the page was loaded, not restored
    } else if (this.#state.name === "resting") {
      this.#load(true);
    } else if (this.#state.name !== "live") {
      this.retry();
    } else {
      this.#check();
    }
  }

  // #begin ends the current turn and begins the next.
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
    if (id) this.#cursor = id; // even if this page is not allowed to see the event
    if (type === "deleted") this.#options.onDeleted(body.run_id, Boolean(body.created_at));
    else if (type === "stopping") this.#options.onStopping(body);
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

  // #again loads a new snapshot, which contains the events that the stream has lost.
  async #again(name, { missed, reason }) {
    const turn = this.#begin();
    this.#options.onNotice({ name, missed, reason });
    // If every stream begins with a gap, pause between the requests for snapshots.
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
    if (type === "closed") return this.#comeBack(); // the browser has given up and gives no reason
    this.#tried = Date.now();
    this.#attempt++;
    this.#show("reconnecting", { attempt: this.#attempt });
  }

  // #comeBack reconnects, to receive the events after the last one, once a probe shows that the
  // server accepts the stream. If dead is true, the browser's other connections may be dead, too.
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

  // #waitAfter shows what went wrong and waits before the next attempt.
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
      // The machine was asleep. Making a new connection is faster than finding out whether the old
      // one still works.
      if (this.#source) this.#comeBack(true);
      else this.retry();
    } else if (this.#state.name === "live" && now - this.#heard > quiet) {
      this.#check();
    } else if (this.#source?.connecting && now - this.#tried > stuck) {
      this.#comeBack();
    }
  }

  // #rest closes the connection, because browsers allow only a few connections to one server, and
  // other pages need them.
  #rest() {
    this.#begin();
    this.#show("resting");
  }

  // #check finds out whether a stream on which no events arrive is alive. The page cannot see the
  // comments that the server sends as a heartbeat.
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
      else if (this.#heard === heard) this.#heard = Date.now(); // no event was due
    } catch (error) {
      if (turn === this.#turn) this.#comeBack(timedOut(error));
    } finally {
      this.#checking = false;
    }
  }

  // #isBehind reports whether something has happened that no event has reported.
  async #isBehind(heard) {
    const { snapshot, behind } = this.#options;
    const signal = this.#cancel.signal;
    const { body } = await get(snapshot.replace(/limit=\d+/, "limit=1"), { timeout: 10_000, signal });
    if (!behind(body)) return false;
    await sleep(2000, signal); // the event may still arrive
    return this.#heard === heard && behind(body);
  }
}

function sleep(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
