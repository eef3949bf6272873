// Package openaitest is a scripted OpenAI-compatible server for tests and example programs:
// it uses real HTTP on the loopback interface, and needs no network and no key.
//
// A script is a list of [Step] values. Each request to
// {URL}/chat/completions or {URL}/responses is answered by the next step: with
// text, with tool calls, or with one of the ways in which a model provider
// fails. A request for a stream is answered with a stream of the same content.
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
// # It fails loudly
//
// A request that the script does not expect is answered with status 400 and an error body
// that says why. It is also reported to the test, and by [Server.Err]. A request is
// unexpected if it
//
//   - has another path or another method,
//   - is malformed: it is not JSON, or has no model, no messages or an unknown role,
//   - has a tool call without its result, or the result of a call that was not made, which
//     the real API refuses, too,
//   - comes after the last step,
//   - does not meet a [Step.Expect] of its step,
//   - is answered with [Refuse] by the script.
//
// A request that fails an expectation, or that a [Respond] function refuses, uses up its
// step; the others are refused before they are given one. Unused steps are reported when
// the server closes.
//
// # Order and concurrency
//
// Steps are used in the order in which requests arrive. If several conversations run at
// once, or one program runs several times, that order is not reliable: use [Respond], which
// chooses the step by the request, with [Repeat] or [Forever].
//
// # Limits
//
// The connections of New and Start are real. In a testing/synctest bubble the
// clock stands still while a goroutine waits for one, so a [Step.After] would
// never end: use [NewLocal] there, whose requests never leave the process.
//
// A request with an Idempotency-Key header is sent again by net/http itself
// when its reused connection breaks: a [Reset] or [HangUp] is then seen by
// the transport and not by the code under test.
package openaitest
