// The live output of a run's calls: a model's answer, thoughts and tool calls, and the progress of
// a tool. See streamer.Delta.

import * as address from "./address.js";
import { make, list, setText, setClass, setHidden, byID } from "./dom.js";

const kept = 8192; // characters of a text
const most = 8; // calls that are shown

const ends = ["completed", "failed", "interrupted", "awaiting"];

export class Producing {
  #calls = new Map(); // by address: {address, attempt, texts}
  #select;
  #any = false; // whether some output has arrived, so that the panel stays
  #away; // why no output is available; undefined if output is available

  constructor(select) {
    this.#select = select;
  }

  clear() {
    this.#calls.clear();
    this.#away = undefined;
  }

  // away stores why no output is available until the run is opened again.
  away(message) {
    this.#calls.clear();
    this.#away = message;
  }

  take({ address, attempt, part, index = 0, name, text = "", whole = false }) {
    let call = this.#calls.get(address);
    if (call && attempt < call.attempt) return;
    if (part === "end") {
      this.#calls.delete(address);
      return;
    }
    if (part === "begin" || !call || attempt > call.attempt) {
      this.#calls.set(address, (call = { address, attempt, texts: new Map() }));
    }
    if (part === "begin") return;
    this.#any = true;
    const key = part + index;
    const before = call.texts.get(key);
    text = whole ? text : (before?.text ?? "") + text;
    call.texts.set(key, { key, part, name: name ?? before?.name, text: text.slice(-kept) });
  }

  // end drops the output of calls that have ended according to the record.
  end({ event_type, execution_status, address, retry_attempt }) {
    if (event_type === "run") this.clear();
    else if (ends.includes(execution_status) && this.#calls.get(address)?.attempt <= retry_attempt) this.#calls.delete(address);
  }

  draw(running) {
    setHidden(byID("producing"), !running || !(this.#any || this.#away));
    const calls = [...this.#calls.values()].filter((call) => call.texts.size > 0);
    setText(byID("producing-total"), String(calls.length));
    setHidden(byID("producing-none"), calls.length > 0);
    setText(byID("producing-none"), this.#away ?? "Nothing at the moment.");
    setHidden(byID("producing-more"), calls.length <= most);
    setText(byID("producing-more"), `${calls.length - most} more`);
    list(byID("producing-rows"), calls.slice(0, most), (call) => call.address, (call) => this.#create(call), update);
  }

  #create(call) {
    const name = address.parse(call.address).name;
    const texts = make("div", { class: "produced", role: "group", tabindex: 0, "aria-label": `What ${name} is producing` });
    const node = make("li", { "data-producing": call.address },
      make("button", { type: "button", title: call.address, onclick: () => this.#select(call.address) }, name), texts);
    node.texts = texts;
    return node;
  }
}

function update(node, call) {
  const { texts } = node;
  const atEnd = texts.scrollHeight - texts.scrollTop - texts.clientHeight < 30;
  list(texts, [...call.texts.values()].filter((t) => t.name || t.text), (t) => t.key, () => make("p"), (line, t) => {
    setClass(line, "part-" + t.part);
    setText(line, [t.name, t.text].filter(Boolean).join(" "));
  });
  if (atEnd) texts.scrollTop = texts.scrollHeight;
}
