// Package conversation is a conversation with an agent over several runs: each
// turn is a run of its own, and its history is that of the turns before. It is
// kept in the store that has the runs, and needs no other.
//
//	chat, err := conversation.Open(ctx, store, "alice", assistant)
//	answer, err := chat.Ask(ctx, "How warm is it in Oslo?")
//	answer, err = chat.Ask(ctx, "And in Rome?")
//
// A program that was ended, in whatever way, opens the conversation again and
// is where it was: a turn that was finished is not asked again, and one that
// was not goes on with [Conversation.Continue].
package conversation
