// Package conversation keeps a conversation with an agent over several runs: each
// turn is a run of its own, and has the history of the turns before it. The
// conversation is read from the store of the runs; nothing else is stored.
//
//	chat, err := conversation.Open(ctx, store, "alice", assistant)
//	answer, err := chat.Ask(ctx, "How warm is it in Oslo?")
//	answer, err = chat.Ask(ctx, "And in Rome?")
//
// A program that ended, for any reason, opens the conversation again: a turn that
// was finished is not asked again, and one that was not goes on with
// [Conversation.Continue].
package conversation
