// Package openai is the LLM actor on OpenAI and on every service that is
// compatible with it, by the client of github.com/sashabaranov/go-openai
// (goopenai below, since both packages are called openai).
//
//	llm := openai.New("gpt-4o-mini")
//
// The API key is that of the environment variable OPENAI_API_KEY or of
// [WithAPIKey], the base URL that of OPENAI_BASE_URL or [WithBaseURL]:
//
//	llm := openai.New("llama3.2", openai.WithBaseURL("http://localhost:11434/v1"))
//
// A [Model] has more to set: Azure, headers, time limits, and the options of
// each request.
//
//	llm := openai.Model{
//		Name:       "gpt-4o-mini",
//		Options:    actors.Options{Temperature: actors.Ptr(0.2), MaxTokens: 1000},
//		FirstToken: 20 * time.Second,
//	}.LLM(actors.WithAttemptTimeout(time.Minute))
//
// # Two APIs
//
// Models are asked by the chat completions API, which every compatible service
// has, or by the Responses API, which the newest models of OpenAI need for
// tools: see [API]. Messages are the same for both. What a service wants back
// as it came (signatures, encrypted reasoning) is in actors.Message.Opaque,
// and goes back only to the API and the host that it came from.
//
// The limit on tokens is sent as max_completion_tokens to OpenAI and as
// max_tokens to others: some ignore the former, and generate for ever.
//
// # Streams
//
// A reply is streamed if the call is watched (live.Watch, actors.Stream), or if
// [Model] has a limit for the first token or for silence. The answer and the
// records are the same. However a stream ends, the answer is whole or the
// attempt has failed; a stream that broke off is retried from the beginning,
// and its usage is estimated.
//
// # Failures
//
// What the service refuses is an [*Error]: its status decides whether it is
// retried (408, 425, 429 and 5xx are), and its Retry-After or Retry-After-Ms
// is a floor under the delay. Beyond that:
//
//   - What it means is found by errors.Is: actors.ErrQuota,
//     actors.ErrContextTooLong, actors.ErrFiltered and
//     actors.ErrFormatUnsupported. These are permanent, whatever their status:
//     no wait mends them.
//   - The delay that it asks for may also be in the body (Google's RetryInfo)
//     or, of a 429, in the headers that say when a limit is lifted.
//   - An error that comes with a status of success, in a reply or in the
//     middle of a stream, is an error. Its class is that of the status or the
//     code in it.
//   - The status of a failure counts also if its body is cut off; of a body,
//     64 KB are read.
//   - A redirect that turns the request into a GET is permanent.
//   - The header X-Should-Retry is obeyed: "false" is permanent, "true" is
//     retried whatever the status.
//   - A broken connection, a truncated or malformed reply, and a reply
//     without choices are retried.
//   - A request that cannot be sent (an API key with a line break in it, an
//     unknown host, parameters that go-openai refuses for the model) is not.
//
// A model may take minutes, and go-openai's own HTTP client waits for ever:
// bound the attempts with [actors.WithAttemptTimeout].
//
// Each request to the service is an attempt on record. net/http repeats one
// by itself only where the service has not taken it on, such as on a
// connection that was closed before a byte was written. It would repeat more
// if it saw an Idempotency-Key header, so none is sent.
package openai
