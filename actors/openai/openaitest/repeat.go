package openaitest

import "fmt"

const forever = -1

// Repeat returns a step that is played n times in a row. If there are fewer requests, the remaining
// repetitions are reported as unplayed. It panics if n is less than 1.
func Repeat(n int, st Step) Step {
	if n < 1 {
		panic(fmt.Sprintf("openaitest: Repeat(%d, …): want at least 1", n))
	}
	if st.times != forever {
		st.times = n * st.count()
	}
	return st
}

// Forever returns a step that is played any number of times, including zero. It must be the last
// step of its script.
func Forever(st Step) Step {
	st.times = forever
	return st
}

// count returns how often the step is played. For a Forever step, it returns a negative number,
// which no counter reaches.
func (st Step) count() int {
	if st.times == 0 {
		return 1
	}
	return st.times
}
