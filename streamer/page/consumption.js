// What a run has consumed: tokens and cost by call, by model and by agent.

import { make, list, setHidden, setText, byID } from "./dom.js";
import { about, cost, count, plural, tokens } from "./format.js";
import { isFolded, foldButton } from "./panels.js";
import { get, runPath } from "./request.js";

const most = 12; // lines per table

const panel = byID("consumption");
byID("consumption-fold").append(foldButton(panel, "consumption", "what it has consumed", true));

const tables = [["calls", "Call"], ["models", "Model"], ["agents", "Agent"]];

export class Consumption {
  #id;
  #body;
  #at = -1; // the number of the newest record when the details were last requested
  #asked = 0;
  #changed;

  constructor(id, changed) {
    this.#id = id;
    this.#changed = changed;
  }

  // draw shows the panel if the run has consumed anything. While the panel is open, it requests the
  // details at most every ten seconds, because for each request the server must read all of the
  // run's records.
  draw(run) {
    const { input_tokens, output_tokens, cost: spent } = run.usage;
    setHidden(panel, input_tokens + output_tokens + spent === 0);
    setText(byID("consumption-total"), `${tokens(run.usage)}` + (spent ? ` · ${about(run.usage)}${cost(spent)}` : ""));
    if (panel.hidden || isFolded("consumption", true)) return;
    if (run.last_seq !== this.#at && Date.now() - this.#asked > 10_000) this.#ask(run.last_seq);
    if (this.#body) draw(this.#body);
  }

  async #ask(seq) {
    this.#asked = Date.now();
    try {
      this.#body = (await get(runPath(this.#id) + "/usage", { timeout: 60_000 })).body;
      this.#at = seq;
    } catch (error) {
      setText(byID("consumption-problem"), error.message);
    }
    this.#changed();
  }
}

function draw(body) {
  setText(byID("consumption-problem"), body.partial ? "Not all records of this run could be read: the totals are too low." : "");
  list(byID("consumption-tables"), tables, ([key]) => key, ([key, name]) => {
    const rows = make("tbody");
    const node = make("table", { class: "shares" }, make("thead", {}, make("tr", {}, ...[name, "Calls", "In", "Out", "Cost"].map((text, i) => make("th", { scope: "col", class: i ? "num" : undefined }, text)))), rows);
    node.rows_ = rows;
    node.key = key;
    return node;
  }, (node, [key]) => {
    const shown = body[key].slice(0, most);
    list(node.rows_, shown, (share) => share.name, (share) => make("tr", {}, make("th", { scope: "row" }, share.name || "outside of agents"), ...Array.from({ length: 4 }, () => make("td", { class: "num" }))), (row, share) => {
      const [calls, input, output, money] = [...row.children].slice(1);
      setText(calls, count(share.calls));
      setText(input, about(share) + count(share.input_tokens));
      setText(output, about(share) + count(share.output_tokens));
      setText(money, share.cost ? about(share) + cost(share.cost) : "–");
    });
    node.title = body[key].length > most ? `${plural(body[key].length - most, "more line")} with less` : "";
  });
}
