// Follows an event stream, using one of the clients from npm, and prints each event as a line of
// JSON:
//
//	node clients.mjs eventsource URL
//
// It ends after a run_completed event.

import { fetchEventSource } from "@microsoft/fetch-event-source";
import { EventSource } from "eventsource";
import { createParser } from "eventsource-parser";

const names = ["started", "completed", "failed", "retrying", "recorded", "run_started", "run_completed", "gap", "reset", "cursor", "message"];

function take({ id, name, data }) {
  process.stdout.write(JSON.stringify({ id, name, data }) + "\n", () => name === "run_completed" && process.exit(0));
}

const clients = {
  // Works as in a browser: it reconnects by itself.
  eventsource(url) {
    const source = new EventSource(url);
    for (const name of names) source.addEventListener(name, (e) => take({ id: e.lastEventId, name, data: e.data }));
  },

  // This is only a parser: the loop that reads and reconnects is here.
  async "eventsource-parser"(url) {
    let cursor = "";
    const parser = createParser({
      onEvent(e) {
        if (e.id) cursor = e.id;
        take({ id: e.id, name: e.event, data: e.data });
      },
    });
    for (;;) {
      try {
        const response = await fetch(url, { headers: cursor ? { "Last-Event-ID": cursor } : {} });
        const decoder = new TextDecoder();
        for await (const chunk of response.body) parser.feed(decoder.decode(chunk, { stream: true }));
      } catch {
        // The connection was cut.
      }
      parser.reset();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  },

  // It reconnects if onclose and onerror tell it to. It moves its own cursor as soon as it has read
  // an ID, even if the event is cut off before the empty line at its end. Therefore the ID of the
  // last complete message is sent instead.
  "fetch-event-source"(url) {
    globalThis.window = globalThis;
    globalThis.document = { addEventListener() {}, removeEventListener() {}, hidden: false };
    let cursor = "";
    fetchEventSource(url, {
      openWhenHidden: true,
      fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, "last-event-id": cursor } }),
      onmessage(e) {
        if (e.id) cursor = e.id;
        take({ id: e.id, name: e.event, data: e.data });
      },
      onclose() {
        throw new Error("come back");
      },
      onerror: () => 1,
    });
  },
};

const [name, url] = process.argv.slice(2);
clients[name](url);
