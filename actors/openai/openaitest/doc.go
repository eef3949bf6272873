// Package openaitest is a scripted OpenAI-compatible server for tests and
// example programs: real HTTP on the loopback interface, no network, no key.
//
// A script is a list of [Step] values. Each request to
// {URL}/chat/completions or {URL}/responses is answered by the next step: with
// text, with tool calls, or with one of the ways in which a model provider
// fails. A request that asks for a stream gets one, of the same content.
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
// A request the script does not expect is answered with status 400 and an
// error body that says what was unexpected. It is also reported through the
// test, and through [Server.Err]. Unexpected is a request
//
//   - to another path or with another method,
//   - that is malformed: no JSON, no model, no messages, an unknown role,
//   - that leaves a tool call without its result, or brings the result of a
//     call nobody made, as the real API refuses too,
//   - that comes after the last step,
//   - that does not meet a [Step.Expect] of its step,
//   - that the script answers with [Refuse].
//
// A request that fails an expectation, or that a [Respond] function refuses,
// has used up its step; all others are refused before they are given one.
// Steps nobody asked for are reported when the server closes.
//
// # Order and concurrency
//
// Steps are handed out in the order in which requests arrive. Where several
// conversations run at once, or one program is run several times, that order
// says little: use [Respond], which chooses the step by what was asked, with
// [Repeat] or [Forever].
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
