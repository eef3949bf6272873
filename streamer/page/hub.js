// One event stream for all tabs of a browser, in a SharedWorker. Without HTTP/2, browsers allow six
// connections to a server, and a stream takes up one of them.
//
// A tab has sources. A source wants the events after a cursor in the stream of all runs: those of
// all runs, or those of one run, with its deltas. The shared stream carries the events that any
// source wants and begins at the earliest cursor. Each source receives the events after its own
// cursor.

const recordEvents = [
  "started", "completed", "failed", "retrying", "recovered", "interrupted", "awaiting", "recorded",
  "run_started", "run_completed", "run_failed", "run_interrupted", "run_paused", "run_cancelled",
];
const mostWatched = 100; // the maximum number of runs that the server lets a stream watch

const sources = new Map(); // by the tab's port and the source's number
let stream; // the EventSource
let has = ""; // the runs that the stream carries, in the form of a query
let timer;

addEventListener("connect", ({ ports: [port] }) => {
  port.onmessage = ({ data }) => ask(port, data);
  port.onclose = () => leave(port); // some browsers report when a tab is closed
});

// ask handles a message from a tab: to open or close a source, or that the user is leaving the tab.
function ask(port, { id, open, run, after, leaves }) {
  if (leaves) return leave(port);
  if (open) sources.set(keyOf(port, id), { port, id, run, ...place(after), opened: false });
  else sources.delete(keyOf(port, id));
  later(open || sources.size === 0 ? 0 : 1000); // unwanted events do no harm for a while
}

function leave(port) {
  for (const [key, source] of sources) if (source.port === port) sources.delete(key);
  clearTimeout(timer);
  connect(); // at once, because the browser may stop the worker when it closes the last page
}

const numbers = new WeakMap(); // the numbers of the ports
let ports = 0;
function keyOf(port, id) {
  if (!numbers.has(port)) numbers.set(port, ++ports);
  return numbers.get(port) + " " + id;
}

// place splits a cursor into the life of the server in which it was issued, and the number of the
// event.
function place(cursor) {
  const [life, number] = (cursor ?? "").split("-");
  return { life, at: number === undefined ? undefined : BigInt(number) };
}

function later(ms) {
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

// connect makes the stream deliver what the sources want.
function connect() {
  const all = [...sources.values()];
  if (all.length === 0) return disconnect();
  // The newest source has the current life of the server.
  const { life } = all.at(-1);
  for (const source of all) {
    if (source.life !== life) end(source, "reset", { reason: "the server was restarted" });
  }
  const mine = all.filter((source) => source.life === life);
  const wanted = queryOf(mine);
  const fresh = mine.filter((source) => !source.opened);
  if (stream && stream.readyState === EventSource.OPEN && wanted === has && fresh.every((source) => source.at >= reached)) {
    for (const source of fresh) open(source);
    return;
  }
  if (stream && wanted === has && fresh.length === 0) return;
  const first = mine.reduce((least, { at }) => (at < least ? at : least), mine[0].at);
  begin(wanted, life, first);
}

function queryOf(all) {
  const runs = [...new Set(all.map(({ run }) => run).filter(Boolean))].sort();
  const params = new URLSearchParams(runs.slice(0, mostWatched).map((run) => ["watch", run]));
  if (all.every(({ run }) => run) && runs.length <= mostWatched) params.set("others", "false");
  return params.toString();
}

let reached = 0n; // the number of the last event that arrived on the stream

function begin(query, life, at) {
  stream?.close();
  has = query;
  reached = at;
  const params = new URLSearchParams(query);
  params.set("after", life + "-" + at);
  const mine = (stream = new EventSource("events?" + params));
  mine.onopen = () => sources.forEach(open);
  mine.onerror = (event) => {
    if (event instanceof MessageEvent) return; // an event from the server with the name "error"
    for (const source of sources.values()) {
      source.opened = false;
      tell(source, { type: "error", closed: mine.readyState === EventSource.CLOSED });
    }
    if (mine.readyState !== EventSource.CLOSED) return;
    sources.clear(); // the sources reconnect when the server is back
    disconnect();
  };
  for (const name of recordEvents) mine.addEventListener(name, take);
  for (const name of ["delta", "elsewhere", "deleted", "stopping", "cursor"]) mine.addEventListener(name, take);
  for (const name of ["gap", "reset"]) mine.addEventListener(name, endAll);
}

function disconnect() {
  stream?.close();
  stream = undefined;
}

function open(source) {
  if (source.opened) return;
  source.opened = true;
  tell(source, { type: "open" });
}

const outbox = new Map(); // the next messages, by port
let sending;

// tell sends a message to a source. Messages that are ready at the same time, such as those for the
// events in one chunk of the stream, are sent together, because the page needs more time to receive
// a message than to handle an event.
function tell({ port, id }, message) {
  if (!outbox.has(port)) outbox.set(port, []);
  outbox.get(port).push({ id, ...message });
  sending ??= setTimeout(send);
}

function send() {
  sending = undefined;
  for (const [port, messages] of outbox) port.postMessage(messages);
  outbox.clear();
}

function take({ type, data, lastEventId }) {
  const { life, at } = place(lastEventId);
  const numbered = type !== "delta" && type !== "elsewhere";
  if (numbered && at > reached) reached = at;
  const body = JSON.parse(data);
  for (const source of sources.values()) {
    if (numbered) {
      if (source.life !== life || at <= source.at) continue; // the source already has the event
      source.at = at;
    }
    if (source.run ? source.run === body.run_id : type !== "delta" && type !== "elsewhere") tell(source, { type, body, lastEventId });
    else if (type === "cursor") tell(source, { type, body, lastEventId });
  }
}

// endAll ends all sources, because events that the stream has lost are lost for all of them.
function endAll({ type, data, lastEventId }) {
  const body = JSON.parse(data);
  for (const source of [...sources.values()]) end(source, type, body, lastEventId);
  disconnect();
}

function end(source, type, body, lastEventId = "") {
  sources.delete(keyOf(source.port, source.id));
  tell(source, { type, body, lastEventId });
}
