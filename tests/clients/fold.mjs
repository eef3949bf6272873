// Folds records with the page's fold.js, once from the first record and twice from the server's
// state after some record, and compares the state after each record with that of the server.
//
//   node fold.mjs FOLDER < vectors
//
// FOLDER contains the page's modules. Each line of the vectors is a run: its records, and the
// server's RunState after each of them.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const fold = await import(pathToFileURL(process.argv[2] + "/fold.js"));

const view = (run, current, waiting) => JSON.stringify({
  status: run.status, last: run.last_seq, calls: run.calls,
  usage: [run.usage?.input_tokens ?? 0, run.usage?.output_tokens ?? 0],
  current: current?.address, waiting: waiting.map((call) => call.address).sort(),
  questions: (run.questions ?? []).map((question) => question.id).sort(),
});
const ofServer = (state) => view(state, state.current, state.waiting ?? []);
const ofPage = (run) => view(run, fold.current(run), fold.waiting(run));

let compared = 0;
let holes = 0;
for (const line of readFileSync(0, "utf8").split("\n")) {
  if (line === "") continue;
  const { seed, records, states } = JSON.parse(line);
  for (const begin of [-1, seed % records.length, (7 * seed) % records.length]) {
    let run = begin < 0 ? fold.begin(records[0].run_id) : fold.adopt(structuredClone(states[begin]));
    for (let i = begin + 1; i < records.length; i++) {
      let result = fold.take(run, records[i]);
      compared++;
      if (result === fold.hole && begin >= 0) { // the page would ask the server for the state
        holes++;
        run = fold.adopt(structuredClone(states[i]));
        result = fold.taken;
      }
      const [server, page] = [ofServer(states[i]), ofPage(run)];
      if (result !== fold.taken || server !== page) {
        const { address, event_type, execution_status, name } = records[i];
        console.log(`seed ${seed}, begun at ${begin}, record ${i + 1} (${event_type} ${execution_status} ${address ?? ""} ${name}): ${String(result)}\n  server ${server}\n  page   ${page}`);
        process.exit(1);
      }
    }
  }
}
console.log(`${compared} records, ${holes} times the server was asked`);
