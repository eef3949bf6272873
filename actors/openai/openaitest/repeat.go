package openaitest

import "fmt"

const forever = -1

// Repeat returns a step that is played n times in a row. Each play is due: if
// fewer are asked for, the rest is reported as unplayed. It panics if n is
// less than 1.
func Repeat(n int, st Step) Step {
	if n < 1 {
		panic(fmt.Sprintf("openaitest: Repeat(%d, …): it must be at least once", n))
	}
	if st.times != forever {
		st.times = n * st.count()
	}
	return st
}

// Forever returns a step that is played as often as it is asked for, or never.
// It must be the last of its script.
func Forever(st Step) Step {
	st.times = forever
	return st
}

// count is how often the step is played; forever is less than any count.
func (st Step) count() int {
	if st.times == 0 {
		return 1
	}
	return st.times
}
