// Talks to the service, using the chat of @ai-sdk/react: node aisdk.mjs URL RUNS. The script exits
// with status 1 if the messages of a chat differ from those on the server.
import assert from "node:assert/strict";
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { cutting, isAnswered, plan, settle, threadOf } from "./pages.mjs";

const [url, runs] = [process.argv[2], Number(process.argv[3])];
const api = `${url}chat/assistant`;
let cuts = 0;
let reconnects = 0;

// chatOf returns a chat whose nth connection breaks after after[n] events; see cutting.
function chatOf(id, after) {
  const retries = [];
  const chat = new Chat({
    id,
    transport: new DefaultChatTransport({ api, fetch: cutting(after, () => cuts++) }),
    sendAutomaticallyWhen: (o) => lastAssistantMessageIsCompleteWithApprovalResponses(o) || lastAssistantMessageIsCompleteWithToolCalls(o),
    onData: (part) => retries.push(part),
  });
  return { chat, retries };
}

// plainly returns the messages without those parts and fields that are missing in the server's
// list.
function plainly(messages) {
  const drop = new Set(["preliminary", "providerExecuted", "title", "toolMetadata", "rawInput", "providerMetadata"]);
  return JSON.parse(JSON.stringify(messages, (key, value) => (drop.has(key) ? undefined : value)))
    .map(({ id, role, parts }) => {
      while (parts.at(-1)?.type === "step-start") parts.pop(); // a step in which nothing was shown
      for (const part of parts) delete part.id; // the part's ID in the stream
      return { id, role, parts };
    })
    .filter((m) => m.parts.length > 0);
}

async function one(seed, words, after) {
  const id = `sdk-${seed}`;
  const { chat, retries } = chatOf(id, after);
  const failing = words.includes("fail");
  await chat.sendMessage({ text: words.join(" ") });
  for (let round = 0; ; round++) {
    if (round > 60) { console.log(words, JSON.stringify(chat.messages), JSON.stringify(await threadOf(api, id)), chat.status, chat.error, await (await fetch(`${url}api/threads/${id}`)).text()); process.exit(1); }
    await settle(() => chat.status === "ready" || chat.status === "error");
    const last = chat.messages.at(-1);
    if (chat.status === "error" && /out of ink/.test(chat.error.message)) break;
    const thread = await threadOf(api, id);
    if (chat.status === "error") { // it was cut off
      reconnects++;
      chat.clearError();
      await chat.resumeStream();
      continue;
    }
    const waits = last.role === "assistant" && last.parts.filter((p) => p.state === "approval-requested" || (p.toolName === "question" && p.state === "input-available"));
    if (waits.length > 0) {
      for (const part of waits) {
        if (part.approval) await chat.addToolApprovalResponse({ id: part.approval.id, approved: seed % 3 > 0, reason: seed % 3 > 0 ? undefined : "not today" });
        else await chat.addToolOutput({ tool: "question", toolCallId: part.toolCallId, output: "Rome" });
      }
      continue;
    }
    if (isAnswered(thread) && last.role === "assistant") break;
    reconnects++;
    await chat.resumeStream();
  }
  const got = plainly(chat.messages);
  const want = await threadOf(api, id);
  assert.deepEqual(got, want, `${id} ${words} ${after}`);
  const run = await (await fetch(`${url}api/threads/${id}`)).json();
  const turn = run.turns.at(-1);
  if (failing) assert.match(turn.error, /out of ink/);
  else assert.equal(want.at(-1).parts.filter((p) => p.type === "text").at(-1).text, turn.answer);
  for (const part of retries.filter((p) => p.type === "data-retry")) assert.ok(part.data.attempt > 1 && part.data.error);
  return got;
}

// Cut each plan at every event, as far as the number of runs allows.
let done = 0;
for (let seed = 0; done < runs; seed++) {
  const words = plan(seed);
  for (let at = 0; at < 8 && done < runs; at++, done++) {
    await one(`${seed}-${at}`.split("-").map(Number).reduce((a, b) => a * 1000 + b), words, at === 0 ? [] : [(seed % 5) + at * 3, at * 7 + 2, at]);
  }
}
// Cut one plan after each of its events.
const whole = ["think", "retry", "tools", "book"];
const most = runs > 50 ? 120 : 12;
const step = runs > 50 ? 1 : 9;
for (let at = 1; at <= most * step && at < 130; at += step, done++) await one(900000 + at, whole, [at]);
console.log(`${done} runs, ${cuts} cuts, ${reconnects} reconnects`);
