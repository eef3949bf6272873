// The loaded part of a long run: either the newest records, or the records before a given one.
// However long the run is, the page holds only one part at a time.

import { setHidden, setText, byID } from "./dom.js";
import { clockTime, exact } from "./format.js";
import { get, runPath } from "./request.js";

export const perPart = 5000; // records

const bar = byID("window");
const place = byID("window-place");
const text = byID("window-text");
const problem = byID("window-problem");

export class Window {
  before = 0; // the first record after the part; 0 for the newest part, which follows the run
  #id;
  #show;
  #from = 0; // the number of the first loaded record
  #to = 0;
  #loading; // a promise while a part is loading
  #wanted; // the part to load next
  #timer;

  // show(records, omitted) shows a part. If it is called without arguments, it must load the newest
  // part.
  constructor(id, show) {
    this.#id = id;
    this.#show = show;
  }

  start() {
    byID("window-earlier").onclick = () => this.earlier();
    byID("window-later").onclick = () => this.later();
    byID("window-newest").onclick = () => this.newest();
    place.oninput = () => {
      clearTimeout(this.#timer);
      const before = Number(place.value) + 1; // now, because draw may set place meanwhile
      this.#timer = setTimeout(() => this.load(before), 200);
    };
  }

  stop() {
    clearTimeout(this.#timer);
    setHidden(bar, true);
    this.#id = undefined; // ignore the results of pending requests
  }

  // took records which part was loaded.
  took(records, omitted) {
    const numbered = records.filter((record) => record.seq && !record.replayed);
    this.#from = numbered[0]?.seq ?? omitted + 1;
    this.#to = numbered.at(-1)?.seq ?? omitted;
  }

  earlier() {
    if (this.#from > 1) this.load(this.#from);
  }

  later() {
    this.load(this.#to + perPart + 1);
  }

  newest() {
    this.load(Infinity);
  }

  // step loads the next part or, if by is -1, the previous one. At either end of the run, it
  // continues at the other end.
  async step(by, last) {
    const earlier = this.#from > 1 ? this.#from : last + 1;
    const later = this.#to < last ? this.#to + perPart + 1 : perPart + 1;
    await this.load(Math.min(by < 0 ? earlier : later, last + 1), last + 1);
  }

  // parts returns the number of parts of a run with the given number of records, or 0
  // if all of them are loaded.
  parts(last) {
    return this.#from <= 1 && this.#to >= last ? 0 : Math.ceil(last / perPart);
  }

  // load loads the part before the record with the given number. If the number is above most, it
  // loads the newest part, which follows the run. While a part is loading, calls have no effect
  // until it is loaded, and then only the latest call has.
  load(before, most = Number(place.max)) {
    this.#wanted = { before, most };
    this.#loading ??= this.#loadWanted().finally(() => (this.#loading = undefined));
    return this.#loading;
  }

  async #loadWanted() {
    const id = this.#id;
    while (this.#wanted && id === this.#id) {
      const { before, most } = this.#wanted;
      this.#wanted = undefined;
      if (before > most) {
        if (this.before !== 0) {
          this.before = 0;
          this.#show();
        }
        continue;
      }
      try {
        const { body } = await get(`${runPath(id)}/records?limit=${perPart}&before=${Math.max(2, before)}`, { timeout: 60_000 });
        if (id !== this.#id) return;
        this.before = before;
        this.took(body.records, body.omitted);
        this.#show(body.records, body.omitted);
        setHidden(problem, true);
      } catch (error) {
        if (id !== this.#id) return;
        setText(problem, error.message);
        setHidden(problem, false);
      }
    }
  }

  // draw shows which part is loaded, unless that is the whole run.
  draw(run, tree) {
    if (this.before === 0) this.#to = run.last_seq;
    setHidden(bar, this.#from <= 1 && this.before === 0);
    place.max = String(run.last_seq);
    if (document.activeElement !== place) place.value = String(this.#to);
    const times = tree.first && tree.end ? `, ${clockTime(tree.first)} to ${clockTime(tree.end)}` : "";
    setText(text, `Records ${exact(this.#from)} to ${exact(this.#to)} of ${exact(run.last_seq)} are loaded${times}`);
    place.setAttribute("aria-valuetext", text.textContent);
    byID("window-earlier").disabled = this.#from <= 1;
    byID("window-later").disabled = this.before === 0;
    byID("window-newest").disabled = this.before === 0;
  }
}
