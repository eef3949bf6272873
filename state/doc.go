// Package state implements runs: a run's ordered history, its interrupts and time limit, its levels
// of retry configuration, and its values.
//
// [New] begins a run whose whole history is kept in memory. [Open] begins or resumes a run in a
// store: the store keeps its history, and memory holds only running calls and what is needed to
// resume. Every call whose context comes from [ExecutionState.Context], directly or derived, is
// part of the run. In a handler, [From] returns the run, for the handler to log to or interrupt;
// [Put] and [Get] store and return values.
//
//	st := state.New(state.WithPublisher(printer.New(os.Stdout)))
//	defer st.Close()
//	answer, err := assistant.Call(st.Context(ctx), actors.Ask("How warm is it in Oslo?"))
//
// While a stored run is open, and while it waits for a human, other processes reach it with
// [Questions], [Answer], [Interrupt] and [AwaitAnswers].
package state
