// Package state is the memory of one run: its history in sequence order, its
// interrupts and its time limit, the levels of retry configuration, values and
// step results.
//
// [New] begins a run in memory. The context of [ExecutionState.Context] makes
// every call under it part of the run; [From] gives a handler its run back, to
// log, to store values or to interrupt.
//
//	st := state.New(state.WithPublisher(printer.New(os.Stdout)))
//	defer st.Close()
//	answer, err := assistant.Call(st.Context(ctx), actors.Ask("How warm is it in Oslo?"))
package state
