// Package conversation keeps a conversation with an agent over several runs: each turn is
// a separate run, with the history of the previous turns. The conversation is read from
// the store of the runs; nothing else is stored.
//
//	chat, err := conversation.Open(ctx, store, "alice", assistant)
//	answer, err := chat.Ask(ctx, "How warm is it in Oslo?")
//	answer, err = chat.Ask(ctx, "And in Rome?")
//
// Each turn stores only what was said in it, and the data of a large picture or file is
// stored once. A turn that failed or was cancelled is not part of the history of later ones.
//
// With [NewProgram], turns are runs of a runner: [Next] returns the run to start for a turn,
// and [Read] lists the turns. A service serves such conversations as threads. The same
// conversation can be opened inside and outside of a service.
//
// After a program has ended for any reason, it opens the conversation again: the agent is
// not asked again in a turn that has ended, and [Conversation.Continue] continues a turn
// that has not.
package conversation
