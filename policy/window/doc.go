// Package window keeps conversations within the context window of a model, no matter how long they
// get.
//
//	llm := window.New("assistant-model", window.Options{Tokens: 128_000}, openai.New("gpt-4o-mini"))
//	agent := actors.NewAgent("assistant", llm, actors.WithTools(search, window.ReadTool()))
//
// If a request does not fit, it is shortened before it is sent:
//
//   - Large tool results are truncated. The complete result is stored with the run, and
//     the model can read more of it with the tool that [ReadTool] returns.
//   - Old turns are left out, or replaced by a summary that a model writes
//     ([Options].Summarizer) in a recorded call. System messages and the current
//     question are kept.
//
// Tokens are estimated from the content, with a correction that is learned from the token counts
// that the service reports. If the service still finds the conversation too long
// ([actors.ErrContextTooLong]), the conversation is shortened further and sent once more.
//
// The agent and its records keep the complete conversation. Only the request to the model is
// shortened, and how it is shortened is recorded before it is sent. A run can therefore be resumed
// with other instructions, tools and options: the request that was being sent is shortened as
// before, and later requests are shortened as the new instructions, tools and options require.
package window
