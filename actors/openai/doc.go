// Package openai is the LLM actor for OpenAI and all compatible services. Programs that have
// a client of github.com/sashabaranov/go-openai can ask through it, see [WithClient]. That
// package is called goopenai below, since both have the name openai.
//
//	llm := openai.New("gpt-4o-mini")
//
// The API key is set by the environment variable OPENAI_API_KEY or by [WithAPIKey], the
// base URL by OPENAI_BASE_URL or [WithBaseURL]:
//
//	llm := openai.New("llama3.2", openai.WithBaseURL("http://localhost:11434/v1"))
//
// The key in OPENAI_API_KEY is not sent to a base URL that the program sets, unless it is
// OpenAI's: [WithAPIKeyEnv] names the variable whose key is.
//
// A [Model] has more settings: Azure, headers, time limits, and the options of each
// request.
//
//	llm := openai.Model{
//		Name:       "gpt-4o-mini",
//		Options:    actors.Options{Temperature: actors.Ptr(0.2), MaxTokens: 1000},
//		FirstToken: 20 * time.Second,
//	}.LLM(actors.WithAttemptTimeout(time.Minute))
//
// # Two APIs
//
// Models are called by the chat completions API, which every compatible service has, or by
// the Responses API, which the newest models of OpenAI need for tools: see [API]. Messages
// are the same for both. Data that a service requires back unchanged (signatures, encrypted
// reasoning) is in actors.Message.Opaque, and is sent only to the API and the host that it
// came from.
//
// On the Responses API, encrypted reasoning is asked for. If the service refuses that for a
// model, the request is made once more without it, and so are all that follow.
//
// A response of background mode (Extra "background" and "store") is asked for until it is
// there. Bound it with [actors.WithAttemptTimeout], which is 10 minutes by default.
//
// # Beside the text
//
// Tools that the service runs itself, such as web search, are Options.Extra "tools", which
// are added to the tools of the agent. The answer has citations, log probabilities,
// images and audio, where the service sends them, in the fields of actors.Message; what a
// model says about its work, in the phase "commentary", is not in its Text. Options.Raw keeps
// the reply as it came. Fields that one service has in messages, such as cache_control, are
// set by actors.Extra.
//
// A tool call that the service refuses to read (tool_use_failed of Groq) is not an error but a
// response with actors.FinishMalformedCall: an agent tells the model.
//
// The limit on tokens is sent as max_completion_tokens to OpenAI and as max_tokens to other
// services, since some ignore the former and generate without a limit.
//
// # Streams
//
// A reply is streamed if the call is watched (live.Watch, actors.Stream), or if
// [Model] has a limit for the first token or for silence. The answer and the records are
// the same. However a stream ends, the answer is complete or the attempt has failed; a
// stream that broke off is retried from the beginning, and its usage is estimated.
//
// # Failures
//
// If the service refuses a request, the error is an [*Error]: its status decides whether it
// is retried (408, 425, 429 and 5xx are), and its Retry-After or Retry-After-Ms is the
// shortest delay. Beyond that:
//
//   - errors.Is finds its meaning: actors.ErrQuota, actors.ErrContextTooLong,
//     actors.ErrFiltered and actors.ErrFormatUnsupported. These are permanent, whatever
//     their status, since waiting does not help.
//   - The delay may also be in the body (Google's RetryInfo) or, for a 429, in the headers
//     that say when a limit is lifted.
//   - An error that is sent with a status of success, in a reply or within a stream, is an
//     error. Its class is determined by the status or the code in it.
//   - The status of a failure counts even if its body is truncated; at most 64 KB of a body
//     are read.
//   - A redirect that turns the request into a GET is permanent.
//   - The header X-Should-Retry is obeyed: "false" is permanent, "true" is
//     retried whatever the status.
//   - A broken connection, a truncated or malformed reply, and a reply
//     without choices are retried.
//   - A request that cannot be sent (an API key with a line break in it, an unknown host,
//     a model that has no chat) is not retried.
//   - A conversation that is too long is actors.ErrContextTooLong, in the words of some
//     twenty services, also where OpenAI reports a request that is above a limit per
//     minute by itself as a 429.
//
// A model may take minutes, and the default HTTP client waits without a limit: bound
// the attempts with [actors.WithAttemptTimeout].
//
// Each request to the service is a recorded attempt, except those that ask for a response
// which was begun before, and the one that is refused for encrypted reasoning. net/http repeats a request by itself
// only if the service has not received it, such as on a connection that was closed before a
// byte was written. It would repeat more requests if they had an Idempotency-Key header, so
// none is sent.
package openai
