// Package openai provides LLM actors for OpenAI and compatible services. It can also use an
// existing client of github.com/sashabaranov/go-openai; see [WithClient]. That package is imported
// as goopenai below, since both are named openai.
//
//	llm := openai.New("gpt-4o-mini")
//
// The API key is read from the environment variable OPENAI_API_KEY or set with [WithAPIKey]. The
// base URL is read from OPENAI_BASE_URL or set with [WithBaseURL]:
//
//	llm := openai.New("llama3.2", openai.WithBaseURL("http://localhost:11434/v1"))
//
// The key in OPENAI_API_KEY is not sent to a base URL set by the program, unless that URL is
// OpenAI's. Use [WithAPIKeyEnv] to select the variable whose key is sent.
//
// A [Model] has more settings: Azure, headers, time limits, and default options for requests.
//
//	llm := openai.Model{
//		Name:       "gpt-4o-mini",
//		Options:    actors.ModelOptions{Temperature: new(0.2), MaxTokens: 1000},
//		FirstToken: 20 * time.Second,
//	}.LLM(actors.WithAttemptTimeout(time.Minute))
//
// # Two APIs
//
// Models are called through the chat completions API, which every compatible service offers, or
// through the Responses API, which OpenAI's newest models require for tools; see [API]. Messages
// are the same for both APIs. Data that must be sent back to a service unchanged, such as
// signatures and encrypted reasoning, is stored in actors.Message.Opaque and sent only to the API
// and host that it came from.
//
// In the Responses API, encrypted reasoning is requested. If the service refuses this for a model,
// the request is repeated without encrypted reasoning, and later requests for the model no longer
// ask for it.
//
// Responses in background mode (ExtraBody "background" and "store") are polled until they are
// complete. They are not streamed, and FirstToken and Idle do not apply. Limit the time with
// [actors.WithAttemptTimeout], which defaults to 10 minutes. In a run, a step creates the response
// and records its ID. If the attempt is interrupted or its process ends during polling, the attempt
// later continues with the same response. A retry creates a new response.
//
// # Content other than text
//
// Tools that the service runs itself, such as web search, are set in Options.ExtraBody["tools"] and
// added to the agent's tools. Citations, log probabilities, images and audio are returned in the
// fields of actors.Message if the service sends them. Text in the phase "commentary", in which a
// model describes its work, is stored in Commentary, not in Text. With Options.Raw, the unmodified
// reply is returned. Message fields specific to one service, such as cache_control, are set with
// actors.Extra.
//
// A tool call that the service itself rejects as malformed (Groq's tool_use_failed) is not an error
// but a response with actors.FinishMalformedCall; an agent then tells the model about it.
//
// The token limit is sent as max_completion_tokens to OpenAI and as max_tokens to other services,
// since some of them ignore the former and generate without a limit.
//
// # Streams
//
// Replies are streamed if the call is watched (live.Watch, actors.Stream) or if [Model] has a limit
// for the first token or for idle time. The answer and the records are the same as without
// streaming. A stream ends with a complete answer or a failed attempt. A stream that breaks off is
// retried from the beginning, and its usage is estimated.
//
// # Failures
//
// If the service reports an error, the call fails with an [*Error]. Its status determines whether
// the call is retried (as for 408, 425, 429 and 5xx), and a Retry-After or Retry-After-Ms header
// sets the minimum delay. In addition:
//
//   - errors.Is matches actors.ErrQuota, actors.ErrContextTooLong, actors.ErrFiltered
//     and actors.ErrFormatUnsupported. These errors are permanent whatever their
//     status, since waiting does not help.
//   - The delay may also be given in the body (Google's RetryInfo) or, for a 429, in
//     rate limit headers.
//   - An error in a reply or stream with a success status also fails the attempt.
//     The status or code in the error determines its class.
//   - The status of a failed request is used even if the body is truncated. At most 64 KB of
//     the body are read.
//   - A redirect that turns the request into a GET is a permanent error.
//   - The header X-Should-Retry is respected: "false" makes an error permanent, "true"
//     retryable, whatever the status. "true" does not say that the request had no effect: after
//     a 500, the call is still in doubt if the model must not be called twice
//     ([core.InDoubtPolicy]).
//   - After a broken connection, a truncated or malformed reply, or a reply without choices, the
//     call is retried, or is in doubt if the model must not be called twice. A reply that cannot
//     be read has the class of a server error.
//   - A request that cannot be sent is not retried, for example because of a line break
//     in the API key, an unknown host, or a model without chat support.
//   - actors.ErrContextTooLong is recognized in the error messages of about twenty
//     services, including OpenAI's 429 for a single request that exceeds the limit per
//     minute.
//
// A model may take minutes, and the default HTTP client has no timeout: limit attempts with
// [actors.WithAttemptTimeout].
//
// Each request to the service is a recorded attempt, except polling requests and a request that is
// refused because of encrypted reasoning. net/http retries a request on its own only if the service
// cannot have received it, for example if the connection was closed before a byte was written. It
// would retry more requests if they had an Idempotency-Key header, so none is sent.
package openai
