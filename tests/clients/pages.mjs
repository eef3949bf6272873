// Functions that agui.mjs and aisdk.mjs share.

// cutting returns a fetch function whose nth response breaks after after[n] events. Responses
// beyond the end of after are complete. It calls cut each time a response breaks.
export function cutting(after, cut) {
  let n = 0;
  return async (input, init) => {
    const response = await fetch(input, init);
    const most = after[n++];
    if (most === undefined || !response.body || response.status !== 200) return response;
    let seen = 0;
    let rest = "";
    const decoder = new TextDecoder();
    const encoder = new TextEncoder();
    const body = response.body.pipeThrough(new TransformStream({
      transform(bytes, controller) {
        rest += decoder.decode(bytes, { stream: true });
        for (let i; (i = rest.indexOf("\n\n")) >= 0;) {
          controller.enqueue(encoder.encode(rest.slice(0, i + 2)));
          rest = rest.slice(i + 2);
          if (++seen >= most) {
            cut();
            controller.error(new TypeError("network error"));
            return;
          }
        }
      },
    }));
    return new Response(body, { status: response.status, headers: response.headers });
  };
}

const all = ["think", "retry", "tools", "book", "two", "ask", "quiet", "say", "fail"];

// plan returns the words that determine what happens in a turn: up to four of those that the agent
// knows.
export function plan(seed) {
  const words = [];
  for (let n = seed % 4, x = seed * 7 + 3; n >= 0; n--, x = x * 31 + 11) words.push(all[x % all.length]);
  return words.slice(0, words.includes("fail") ? words.indexOf("fail") + 1 : 4);
}

// settle waits until holds() is true.
export async function settle(holds) {
  for (const until = Date.now() + 30_000; !holds();) {
    if (Date.now() > until) throw new Error("it did not settle");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

export async function threadOf(api, id) {
  const response = await fetch(`${api}/${id}`);
  return (await response.json()).messages;
}

// isAnswered reports whether the last message of a thread is a complete answer.
export function isAnswered(messages) {
  const last = messages.at(-1);
  return last.role === "assistant" && last.parts.at(-1).text?.includes("says done, and more.");
}
