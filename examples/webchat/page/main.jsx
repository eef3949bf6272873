// The page of the chat: useChat of @ai-sdk/react, on the paths of the service.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

const api = "/chat/assistant";

// The thread is in the address, so that it is shown again when the page is reloaded.
const id = location.hash.slice(1) || `chat-${crypto.randomUUID()}`;
location.hash = id;

function Chat({ messages: known }) {
  const [retry, setRetry] = useState(null);
  const { messages, sendMessage, status, error, clearError, resumeStream, addToolApprovalResponse } = useChat({
    id,
    messages: known,
    resume: known.length > 0,
    transport: new DefaultChatTransport({ api }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onData: (part) => part.type === "data-retry" && setRetry(part.data.over ? null : { ...part.data, at: Date.now() + 1000 * part.data.seconds }),
  });
  const lost = status === "error" && isLost(error);
  useEffect(() => { // the server was away: the stream is resumed when it is back
    if (!lost) return undefined;
    const timer = setTimeout(async () => {
      clearError();
      await resumeStream();
    }, 500);
    return () => clearTimeout(timer);
  }, [lost, error]);

  return (
    <main data-status={lost ? "lost" : status}>
      {messages.map((m) => (
        <article key={m.id} className={m.role}>
          {m.parts.map((part, i) => <Part key={i} part={part} approve={(approved) => addToolApprovalResponse({ id: part.approval.id, approved, reason: approved ? undefined : "the user refused" })} />)}
        </article>
      ))}
      {retry && <Retry {...retry} />}
      {lost && <p className="note">The server is away; what it has said is not lost.</p>}
      {status === "error" && !lost && <p className="note error">{error.message}</p>}
      <form onSubmit={(e) => {
        e.preventDefault();
        const text = new FormData(e.target).get("text").trim();
        e.target.reset();
        if (text) sendMessage({ text });
      }}>
        <input name="text" placeholder="Say something: busy, refund, or anything" autoFocus autoComplete="off" />
        <button disabled={status === "submitted" || status === "streaming" || lost}>Send</button>
        {(status === "streaming" || status === "submitted") && <button type="button" onClick={() => fetch(`${api}/${id}/stop`, { method: "POST" })}>Stop</button>}
      </form>
    </main>
  );
}

// isLost reports whether the connection broke, as opposed to an error that the server sent.
function isLost(error) {
  return error instanceof TypeError || /network|fetch|terminated/i.test(error?.message ?? "");
}

function Part({ part, approve }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <p className="note">{part.text}</p>;
  if (part.type !== "dynamic-tool") return null;
  return (
    <div className="tool" data-state={part.state}>
      <code>{part.toolName} {JSON.stringify(part.input)}</code>
      {part.state === "approval-requested" && <>
        <button type="button" className="yes" onClick={() => approve(true)}>Approve</button>
        <button type="button" className="no" onClick={() => approve(false)}>Refuse</button>
      </>}
      {part.state === "output-available" && <span> → {typeof part.output === "string" ? part.output : JSON.stringify(part.output)}</span>}
      {part.state === "output-denied" && <span> → refused</span>}
      {part.state === "output-error" && <span className="error"> → {part.errorText}</span>}
    </div>
  );
}

function Retry({ name, attempt, max_attempts: most, at, error }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 250);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.ceil((at - Date.now()) / 1000));
  return <p className="note retry">{name}: {error} – trying again in {seconds} s (attempt {attempt}{most ? ` of ${most}` : ""})</p>;
}

const response = await fetch(`${api}/${id}`);
const { messages } = response.ok ? await response.json() : { messages: [] };
createRoot(document.getElementById("page")).render(<Chat messages={messages} />);
