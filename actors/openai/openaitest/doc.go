// Package openaitest provides a scripted OpenAI-compatible server for tests and example programs.
// It uses real HTTP on the loopback interface and needs neither network access nor a key.
//
// A script is a list of [Step] values. Each request to {URL}/chat/completions or {URL}/responses is
// answered by the next step: with text, with tool calls, or with a failure like those of model
// providers. A streaming request is answered with a stream of the same content.
//
//	func TestAgentSurvivesARateLimit(t *testing.T) {
//		srv := openaitest.New(t,
//			openaitest.RateLimited(time.Second),
//			openaitest.ToolCalls(openaitest.Call("get_weather", `{"city":"Oslo"}`)).
//				Expect(openaitest.HasTool("get_weather")),
//			openaitest.Text("It is 4 degrees.").WithUsage(12, 5).
//				Expect(openaitest.HasToolResult("get_weather", "4")),
//		)
//		llm := openai.New("m", openai.WithBaseURL(srv.URL()), openai.WithAPIKey("key"))
//		…
//	}
//
// # Unexpected requests
//
// An unexpected request is answered with status 400 and an error body that explains why. It is also
// reported to the test and by [Server.Err]. A request is unexpected if it
//
//   - has a different path or method,
//   - is malformed: it is not JSON, or has no model, no messages or an unknown role,
//   - contains a tool call without a result, or the result of an unknown call; the
//     real API refuses these, too,
//   - comes after the last step,
//   - fails a [Step.Expect] check of its step,
//   - is answered with [Refuse] by the script.
//
// A request that fails a check or that a [Respond] function refuses uses up its step. Other
// unexpected requests do not. Unused steps are reported when the server is closed.
//
// # Order and concurrency
//
// Steps are used in the order in which requests arrive. If several conversations run concurrently
// or a program runs several times, this order is not deterministic: use [Respond], which chooses
// the step based on the request, with [Repeat] or [Forever].
//
// # Limits
//
// Servers started with New and Start use real connections. In a testing/synctest bubble, the clock
// does not advance while a goroutine waits for a connection, so [Step.After] would never end: use
// [NewLocal] there, which handles requests within the process.
//
// net/http itself retries a request with an Idempotency-Key header if a reused connection breaks.
// In that case, only the transport sees a [Reset] or [HangUp]; the code under test does not.
package openaitest
