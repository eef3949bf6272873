// Package conversation spreads a conversation with an agent over several runs: each turn is a
// separate run that begins with the history of the previous turns. The conversation is read from
// the runs in the store; nothing else is stored.
//
//	chat, err := conversation.Open(ctx, store, "alice", assistant)
//	answer, err := chat.Ask(ctx, "How warm is it in Oslo?")
//	answer, err = chat.Ask(ctx, "And in Rome?")
//
// Each turn stores only its own messages, and the data of a large picture or file is stored once. A
// turn that failed or was cancelled is not part of the history of later turns.
//
// With [NewProgram], a runner executes the turns: [Next] returns the run to start for a turn, and
// [Read] lists the turns. A service exposes such conversations as threads. The same conversation
// can be opened both inside and outside a service.
//
// Any turn may be removed, by hand or by a runner's retention. The next turn follows the last one
// that is left. Its history goes back only to the last removed turn.
//
// If a program ends for any reason, it can open the conversation again when it is restarted. A turn
// that has ended is not repeated; [Conversation.Continue] continues a turn that has not ended.
package conversation
