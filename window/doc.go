// Package window keeps conversations within the context of a model, however long they
// get.
//
//	llm := window.New("assistant-model", window.Options{Tokens: 128_000}, openai.New("gpt-4o-mini"))
//	agent := actors.NewAgent("assistant", llm, actors.WithTools(search, window.ReadTool()))
//
// Before a request is sent, what does not fit is taken out of it:
//
//   - Results of tools that are too large are given in part. The whole result is kept
//     with the run, and the tool of [ReadTool] reads on.
//   - Old turns are left out, or replaced by a summary that a model has made
//     ([Options].Summarizer), in a call that is on record. System messages and the
//     question that is being answered stay.
//
// Tokens are estimated from the content, with a correction that is learned from the
// counts of the service. If the service says that the conversation is too long all the
// same ([actors.ErrContextTooLong]), it is shortened and sent once more.
//
// The agent keeps the whole conversation, and so do its records: only what the model
// gets is shorter.
package window
