// Talks to the service, using the agent of @ag-ui/client: node agui.mjs URL RUNS. The client
// verifies the order of all events. The script exits with status 1 if an event is out of order, or
// if two clients have different messages.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { cutting, plan } from "./pages.mjs";

const [url, runs] = [process.argv[2], Number(process.argv[3])];
const endpoint = `${url}agui/assistant`;
let cuts = 0;
let attached = 0;
const broken = /network error|terminated|fetch failed/;
process.on("unhandledRejection", (error) => { // the client causes one for each broken connection
  if (!broken.test(String(error?.message))) throw error;
});
const warn = console.warn;
console.warn = (...what) => { throw new Error(`the client warns: ${what.join(" ")}`); };

function agentOf(threadId, after) {
  return new HttpAgent({ url: endpoint, threadId, fetch: cutting(after, () => cuts++) });
}

// run makes one request. It returns the outcome, or undefined if the connection broke.
async function run(agent, parameters = {}) {
  let outcome;
  try {
    await agent.runAgent({ runId: randomUUID(), ...parameters }, {
      onRunFinishedEvent: ({ event }) => { outcome = event.outcome; },
      onRunErrorEvent: ({ event }) => { if (event.code !== "abort") outcome = { type: "error", message: event.message }; },
    });
  } catch (error) {
    if (!broken.test(error.message) && !/out of ink/.test(error.message)) throw error;
  }
  if (outcome && broken.test(outcome.message)) return undefined;
  return outcome;
}

// plainly returns the messages without empty reasoning, empty contents, and encrypted values.
function plainly(messages) {
  return JSON.parse(JSON.stringify(messages)).filter((m) => m.role !== "reasoning" || m.content !== "")
    .map((m) => ({ ...m, content: m.content || undefined, encryptedValue: undefined }))
    .map((m) => JSON.parse(JSON.stringify(m)));
}

async function one(seed, words, after, second) {
  const threadId = `ag-${seed}`;
  const agent = agentOf(threadId, after);
  for (const text of second ? [words.join(" "), second] : [words.join(" ")]) {
    agent.addMessage({ id: randomUUID(), role: "user", content: text });
    let resume;
    for (let round = 0; ; round++) {
      assert.ok(round < 100, `${threadId}: no end`);
      const outcome = await run(agent, resume ? { resume } : {});
      resume = undefined;
      if (outcome === undefined) {
        attached++;
        agent.pendingInterrupts = []; // discard those of the request that broke
        continue;
      }
      if (outcome.type === "error") {
        assert.match(outcome.message, /out of ink/, threadId);
        break;
      }
      if (outcome.type === "success") break;
      assert.equal(outcome.type, "interrupt", JSON.stringify(outcome));
      resume = outcome.interrupts.map((i) => ({
        interruptId: i.id, status: "resolved",
        payload: i.reason === "tool_call" ? { approved: seed % 3 > 0 } : "Rome",
      }));
    }
  }
  const other = agentOf(threadId, []);
  await run(other);
  assert.deepEqual(plainly(agent.messages), plainly(other.messages), `${threadId} ${words} ${after}`);
  const { turns } = await (await fetch(`${url}api/threads/${threadId}`)).json();
  const last = turns.at(-1);
  if (last.status === "completed") assert.equal(agent.messages.at(-1).content, last.answer);
}

let done = 0;
for (let seed = 0; done < runs; seed++) {
  const words = plan(seed);
  for (let at = 0; at < 8 && done < runs; at++, done++) {
    await one(seed * 1000 + at, words, at === 0 ? [] : [(seed % 5) + at * 3, at * 7 + 2, at], at % 3 === 1 && !words.includes("fail") ? "retry" : undefined);
  }
}
const whole = ["think", "retry", "tools", "book"];
const step = runs > 50 ? 1 : 9;
for (let at = 1; at < 130; at += step, done++) await one(900000 + at, whole, [at]);
console.warn = warn;
console.log(`${done} runs, ${cuts} cuts, attached ${attached} times`);
