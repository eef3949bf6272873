// Shows the queue, the processes that have runs open, and the programs with their
// versions and schedules.

import { make, list, setHidden, setText, byID } from "./dom.js";
import { parse } from "./clock.js";
import { count, fullTime, plural } from "./format.js";
import { foldButton, isFolded } from "./panels.js";
import { get } from "./request.js";

const every = 10_000; // ms

const panel = byID("work");
byID("work-fold").append(foldButton(panel, "work", "workers, queue and programs", true));

export class Work {
  #body;
  #asked = 0;
  #changed;

  constructor(changed) {
    this.#changed = changed;
  }

  // draw repeats the request from time to time, more often while the panel is open.
  draw(can) {
    setHidden(panel, !can?.history); // shown even before the first response, so that what is below does not move later
    if (!can?.history) return;
    if (!document.hidden && Date.now() - this.#asked > (isFolded("work", true) ? 6 * every : every)) this.#ask();
    if (this.#body) draw(this.#body);
  }

  async #ask() {
    this.#asked = Date.now();
    try {
      this.#body = (await get("api/work")).body;
      this.#changed();
    } catch {
      // The feed shows that the server cannot be reached.
    }
  }
}

function draw({ queue, workers, running, programs }) {
  const folded = panel.classList.contains("folded");
  const parts = [];
  if (queue) parts.push(`${count(queue.queued)} wait for a slot`, `${count(queue.parked)} wait for their time`, `${queue.open} of ${queue.limit} open here`);
  else if (!folded) parts.push(plural(running, "run") + " open");
  setText(byID("work-total"), parts.join(" · "));
  if (folded) return;
  list(byID("work-workers"), workers, ({ name }) => name, () => make("tr", {}, make("th", { scope: "row", class: "mono" }), make("td", { class: "num" })), (row, { name, runs }) => {
    setText(row.firstChild, name || "not named");
    setText(row.lastChild, plural(runs, "run") + " open");
  });
  setHidden(byID("work-none"), workers.length > 0);
  list(byID("work-programs"), programs, ({ name }) => name, () => make("tr", {}, make("th", { scope: "row" }), make("td"), make("td")), (row, { name, version, versions, schedules }) => {
    setText(row.firstChild, name);
    setText(row.children[1], "version " + (versions.length > 1 ? `${version}; runs of ${versions.join(", ")} can continue` : version));
    setText(row.lastChild, (schedules ?? []).map(({ name, when, next }) => `${name}: ${when}` + (next ? `, next ${fullTime(parse(next))}` : ", and not again")).join("; "));
  });
  setHidden(byID("work-programs").parentElement, programs.length === 0);
}
