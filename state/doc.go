// Package state is the memory of one run: its history in sequence order, its
// interrupts and its time limit, the levels of retry configuration, values and
// step results.
//
// [New] begins a run in memory, with all of its history. [Open] begins or
// resumes one in a store: its history is there, and in memory is no more of it
// than is under way and what resuming needs to find it. The context of [ExecutionState.Context] makes
// every call under it part of the run; [From] gives a handler its run back, to
// log, to store values or to interrupt.
//
//	st := state.New(state.WithPublisher(printer.New(os.Stdout)))
//	defer st.Close()
//	answer, err := assistant.Call(st.Context(ctx), actors.Ask("How warm is it in Oslo?"))
//
// [Open] begins a run in a store or resumes it. While it is open, and when it
// waits for a human, other processes reach it: [Questions], [Answer],
// [Interrupt] and [AwaitAnswers].
package state
