// Requests to the server from which the page was loaded. All paths are relative.

// A Refusal is a response from the server that does not report success.
export class Refusal extends Error {
  constructor(status, code, message, retryAfter) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter; // in ms; 0 if the server did not specify it
  }
}

// get returns the JSON at the path, with the times before and after the request. It throws a
// Refusal, or another error if no response arrives in time.
export async function get(path, { timeout = 15_000, signal } = {}) {
  const sent = Date.now();
  const response = await fetch(path, { signal: within(timeout, signal), cache: "no-store", credentials: "same-origin" });
  if (!response.ok) throw await refusal(response);
  return { body: await response.json(), sent, received: Date.now() };
}

// post sends JSON and returns the JSON of the response.
export async function post(path, body) {
  const response = await fetch(path, {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
    signal: within(60_000), credentials: "same-origin",
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// probe sends a request, and closes the connection as soon as the status of the response is known.
export async function probe(path, { timeout, signal } = {}) {
  const over = new AbortController();
  try {
    const response = await fetch(path, { signal: within(timeout, signal, over.signal), cache: "no-store", credentials: "same-origin" });
    if (!response.ok) throw await refusal(response);
  } finally {
    over.abort();
  }
}

// drain makes the browser close the dead connections that it keeps for reuse. Browsers keep six
// connections to a server. Each of the six requests takes up one of them, and if no response
// arrives, that connection is closed.
export async function drain(signal) {
  await Promise.allSettled(Array.from({ length: 6 }, () => get("health", { timeout: 2500, signal })));
}

export const timedOut = (error) => error.name === "TimeoutError";

const within = (timeout, ...signals) => AbortSignal.any([AbortSignal.timeout(timeout), ...signals.filter(Boolean)]);

async function refusal(response) {
  let code = "";
  let message = `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  try {
    const { error } = await response.json();
    code = error.code;
    message = error.message;
  } catch {
    // The body is a page from a proxy: the status is enough.
  }
  const after = Number(response.headers.get("Retry-After"));
  return new Refusal(response.status, code, message, after > 0 ? after * 1000 : 0);
}

export const runPath = (id) => "api/runs/" + encodeURIComponent(id);
