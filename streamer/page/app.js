// The page: the bar at the top, and the view that the address selects. The view is drawn at most
// ten times a second.

import { make, setText, setAttribute, setHidden, byID } from "./dom.js";
import { now } from "./clock.js";
import * as currency from "./currency.js";
import { clockTime, duration, plural } from "./format.js";
import { listen } from "./keys.js";
import * as notify from "./notify.js";
import { Overview, filterNames } from "./overview.js";
import { onRoute, refine, route } from "./route.js";
import { RunView } from "./run.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");

let view; // an Overview or a RunView
let shown; // the ID of the run that the view shows; empty for all runs
let dirty = true; // something has changed since the last drawing
let drawn = 0; // when everything was drawn
let pace = 100; // ms between drawings; more if they take long
let paused; // {at, events} while the display is frozen
let connection = { name: "loading" };
let resumed = 0; // when the connection was last restored

const callbacks = {
  changed: () => (dirty = true),
  loaded: () => {
    drawn = 0; // show the loaded data in the next frame, however long the last drawing took
    requestAnimationFrame(frame);
  },
  onState: showState,
  onNotice: notice,
  onRecord: (record) => {
    if (paused) paused.events++;
    notify.take(record);
  },
  announce,
};

function follow(to) {
  const id = to.run ?? "";
  if (id !== shown) {
    view?.stop();
    shown = id;
    if (paused) pause();
    byID("notices").replaceChildren();
    view = id ? new RunView(id, callbacks) : new Overview(callbacks);
    byID("overview").hidden = Boolean(id);
    byID("run").hidden = !id;
    view.start();
    scrollTo(0, 0);
  }
  for (const [input, name] of controls) if (document.activeElement !== input || !to[name]) input.value = to[name] ?? "";
  dirty = true;
}

// The controls for filtering, with the names of their parameters in the address.
const controls = [
  [byID("search"), "q"], [byID("run-search"), "q"], [byID("kind"), "kind"], [byID("run-kind"), "kind"], [byID("only"), "only"], [byID("sort"), "sort"],
  ...filterNames.map((name) => [byID("filter-" + name), name]),
];
for (const [input, name] of controls) input.addEventListener("input", () => refine({ [name]: input.value }));

// frame draws what has changed, and updates countdowns.
function frame() {
  const time = performance.now();
  if (!paused && view) {
    const ages = time - drawn > 1000; // texts such as "5 s ago" change, too
    if ((dirty && time - drawn >= pace) || ages) {
      dirty = false;
      view.draw(now());
      drawn = time;
      // Drawing, including the browser's work to show the result, takes at most a tenth of
      // the time. If one drawing takes longer than a frame, only a few frames are late.
      setTimeout(() => (pace = Math.min(2000, Math.max(100, 10 * (performance.now() - time)))));
      if (document.title !== view.title) document.title = view.title;
    } else if (!calm.matches) {
      view.tick(now());
    }
  }
  showConnection();
}
setInterval(() => requestAnimationFrame(frame), 100);
addEventListener("scroll", () => (dirty = true), { passive: true }); // other rows are on the screen now

function pause() {
  paused = paused ? undefined : { at: now(), events: 0 };
  dirty = true;
  setAttribute(byID("pause"), "aria-pressed", String(Boolean(paused)));
  setText(byID("pause-text"), paused ? "Continue" : "Pause");
  setAttribute(byID("pause-icon"), "href", paused ? "#i-run" : "#i-paused");
  document.body.classList.toggle("frozen", Boolean(paused));
}

function theme() {
  const next = { auto: "dark", dark: "light", light: "auto" }[document.documentElement.dataset.theme];
  globalThis.setTheme(next);
  showTheme();
  announce(`Colours: ${next}`);
}

function showTheme() {
  const { theme } = document.documentElement.dataset;
  setAttribute(byID("theme-icon"), "href", "#i-" + theme);
  setAttribute(byID("theme"), "aria-label", `Colours: ${theme}`);
}

function showState(state) {
  const before = connection.name;
  connection = { ...state, since: Date.now() };
  if (before !== state.name && (before === "live" || state.name === "live")) announce(state.name === "live" ? "Connected" : "The connection is lost");
  showConnection();
}

const texts = {
  loading: "Loading", live: "Live", reconnecting: "Reconnecting", refused: "Refused", missing: "Not found", resting: "Resting",
};

function showConnection() {
  const { name, attempt, until, message } = connection;
  let text = texts[name] ?? name;
  if (name === "live" && Date.now() - resumed < 6000) text = "Live again, nothing missed";
  if (attempt && name !== "live" && (name !== "loading" || attempt > 1 || until)) text += `, try ${attempt}`;
  const left = (until ?? 0) - Date.now();
  if (left > 500) text += `, next in ${Math.ceil(left / 1000)} s`;
  setAttribute(byID("connection"), "data-state", name);
  setText(byID("connection-text"), text);
  setHidden(byID("retry"), !(until || name === "reconnecting" || name === "refused"));
  setHidden(byID("behind"), !paused);
  if (paused) setText(byID("behind"), `Frozen at ${clockTime(paused.at)} · ${plural(paused.events, "event")} since`);
  document.body.classList.toggle("stale", name === "reconnecting");
  const trouble = name === "refused" ? refusal(message) : message && name !== "live" ? [message[0].toUpperCase() + message.slice(1) + "."] : undefined;
  showTrouble(trouble);
}

const refusal = (message) => [
  "The server refuses this page: " + message + ".",
  "Sign in again, in another tab if need be, and come back; or ask whoever runs this server for permission.",
];

// showTrouble shows a single notice for as long as the trouble lasts.
function showTrouble(lines) {
  const old = byID("trouble");
  if (!lines) {
    old?.remove();
  } else if (!old || old.textContent !== lines.join("")) {
    const fresh = make("div", { id: "trouble", class: "notice bad", role: "alert" }, ...lines.map((line) => make("p", {}, line)));
    if (old) old.replaceWith(fresh);
    else byID("notices").prepend(fresh);
  }
}

// notice shows what happened to the stream.
function notice({ name, missed, reason, ms }) {
  if (name === "resumed") {
    resumed = Date.now();
    announce(`Connected again after ${duration(ms)}`);
    return;
  }
  resumed = 0;
  const text = name === "gap"
    ? `${plural(missed, "event")} had been dropped from the server's memory before this page could read them. Everything was reloaded.`
    : `The stream started over: ${reason}. Everything was reloaded.`;
  const node = make("div", { class: "notice", "data-notice": name },
    make("p", {}, text), make("button", { type: "button", class: "quiet", onclick: () => node.remove() }, "Dismiss"));
  for (const old of document.querySelectorAll("[data-notice]")) old.remove();
  byID("notices").append(node);
  announce(text);
}

// announce lets screen readers read a text aloud, at most once every five seconds.
let said = 0;
function announce(text) {
  if (Date.now() - said < 5000) return;
  said = Date.now();
  setText(byID("announce"), text);
}

byID("pause").addEventListener("click", pause);
byID("theme").addEventListener("click", theme);
byID("retry").addEventListener("click", () => view.retry());
showTheme();
currency.follow([...document.querySelectorAll(".currency")], () => (dirty = true));
listen({ view: () => view, pause, theme });
onRoute(follow);
follow(route());
