// Package conversation keeps a conversation with an agent over several runs: each turn is
// a separate run, with the history of the previous turns. The conversation is read from
// the store of the runs; nothing else is stored.
//
//	chat, err := conversation.Open(ctx, store, "alice", assistant)
//	answer, err := chat.Ask(ctx, "How warm is it in Oslo?")
//	answer, err = chat.Ask(ctx, "And in Rome?")
//
// After a program has ended for any reason, it opens the conversation again: a finished
// turn is not asked again, and [Conversation.Continue] continues an unfinished one.
package conversation
