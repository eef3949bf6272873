// A feed's event stream. It is like an EventSource, but uses the single stream that all tabs of the
// browser share. In browsers without SharedWorker, each tab has its own stream.

const policy = globalThis.trustedTypes?.createPolicy("hub", { createScriptURL: () => "hub.js" });

let hub; // the port to the worker
const open = new Map(); // sources by their numbers
let numbers = 0;

function connect() {
  if (hub || !globalThis.SharedWorker) return Boolean(hub);
  try {
    hub = new SharedWorker(policy ? policy.createScriptURL("hub.js") : "hub.js").port;
  } catch {
    return false; // for example in a frame on another site
  }
  hub.onmessage = ({ data }) => {
    for (const message of data) open.get(message.id)?.take(message);
  };
  // When the last page is hidden, the browser freezes the worker and its stream, so the worker must
  // be told beforehand.
  addEventListener("beforeunload", () => {
    hub.postMessage({ leaves: true });
    setTimeout(stay, stays);
  });
  return true;
}

const stays = 5000; // after this time in ms, a page that still runs was not left; the next page may take a while to load

// stay opens the sources again because the user did not leave the page after all.
function stay() {
  for (const source of [...open.values()]) source.take({ type: "error", closed: true });
}

// shared reports whether the tabs of this browser share one stream.
export const shared = () => connect();

// A Source delivers the events of all runs after a cursor, or those of one run, with its deltas. It
// calls on(type, body, lastEventId) for each event, and also with the types "open", "error" and
// "closed". The type "closed" means that an error has ended the source.
export class Source {
  connecting = true;
  #id = ++numbers;
  #on;
  #own; // the tab's own EventSource, if there is no shared stream

  constructor({ run, after }, on) {
    this.#on = on;
    open.set(this.#id, this);
    if (connect()) hub.postMessage({ id: this.#id, open: true, run, after });
    else this.#openOwn(run, after);
  }

  close() {
    open.delete(this.#id);
    if (this.#own) this.#own.close();
    else hub?.postMessage({ id: this.#id });
  }

  take({ type, body, lastEventId, closed }) {
    this.connecting = type === "error";
    this.#on(type === "error" && closed ? "closed" : type, body, lastEventId);
  }

  #openOwn(run, after) {
    const own = (this.#own = new EventSource(pathOf({ run, after })));
    own.onopen = () => this.take({ type: "open" });
    own.onerror = (event) => event instanceof MessageEvent || this.take({ type: "error", closed: own.readyState === EventSource.CLOSED });
    for (const type of eventTypes) {
      own.addEventListener(type, ({ data, lastEventId }) => {
        const body = JSON.parse(data);
        if (!run || !body.run_id || body.run_id === run) this.take({ type, body, lastEventId });
      });
    }
  }
}

// pathOf returns the path of the stream for a run or for all runs.
export function pathOf({ run, after }) {
  const params = new URLSearchParams();
  if (run) {
    params.set("watch", run);
    params.set("others", "false");
  }
  if (after) params.set("after", after);
  return "events?" + params;
}

const eventTypes = [
  "started", "completed", "failed", "retrying", "recovered", "interrupted", "awaiting", "recorded",
  "run_started", "run_completed", "run_failed", "run_interrupted", "run_paused", "run_cancelled",
  "delta", "elsewhere", "deleted", "stopping", "cursor", "gap", "reset",
];
