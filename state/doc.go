// Package state implements runs: the history of a run in sequence order, its
// interrupts and time limit, its levels of retry configuration, and its values.
//
// [New] begins a run in memory, with all of its history. [Open] begins or resumes a run in a store:
// its history is in the store, and memory holds only running calls and what resuming needs. Every
// call with the context of [ExecutionState.Context], or one derived from it, is part of the run. In
// a handler, [From] returns the run, to log, to store values or to interrupt.
//
//	st := state.New(state.WithPublisher(printer.New(os.Stdout)))
//	defer st.Close()
//	answer, err := assistant.Call(st.Context(ctx), actors.Ask("How warm is it in Oslo?"))
//
// While a stored run is open, and while it waits for a human, other processes
// reach it by [Questions], [Answer], [Interrupt] and [AwaitAnswers].
package state
