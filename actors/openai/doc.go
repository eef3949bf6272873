// Package openai is the LLM actor on OpenAI and on every service that speaks
// its chat completions API, by the client of github.com/sashabaranov/go-openai
// (goopenai below, since both packages are called openai).
//
//	llm := openai.New("gpt-4o-mini")
//
// The API key is that of the environment variable OPENAI_API_KEY or of
// [WithAPIKey], the base URL that of OPENAI_BASE_URL or [WithBaseURL]:
//
//	llm := openai.New("llama3.2", openai.WithBaseURL("http://localhost:11434/v1"))
//
// Temperature, seed and all other parameters are those of a [Model]:
//
//	llm := openai.Model{
//		Name:   "gpt-4o-mini",
//		Params: goopenai.ChatCompletionRequest{Temperature: 0.2, Seed: &seed},
//	}.LLM(actors.WithAttemptTimeout(time.Minute))
//
// # Failures
//
// What the service refuses is an [*Error]: its status decides whether it is
// retried (408, 425, 429 and 5xx are), and its Retry-After or Retry-After-Ms
// is a floor under the delay. Beyond that:
//
//   - An exhausted quota or an inactive account is permanent, although its
//     status is 429.
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
