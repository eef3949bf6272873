package openaitest

import (
	"fmt"
	"slices"
)

// A script hands out steps in order. It is guarded by its Server's mutex.
type script struct {
	steps  []Step
	next   int // index of the next step
	played int // how often that step has been played
}

func newScript(steps []Step) script {
	for i, st := range steps {
		if st.times == forever && i < len(steps)-1 {
			panic(fmt.Sprintf("openaitest: step %d comes after a Forever step and would never be played", i+2))
		}
	}
	return script{steps: slices.Clone(steps)}
}

// take returns the next step and its number, starting at 1. It returns false at the end
// of the script.
func (sc *script) take() (Step, int, bool) {
	if sc.next == len(sc.steps) {
		return Step{}, 0, false
	}
	st, number := sc.steps[sc.next], sc.next+1
	if sc.played++; sc.played == st.count() {
		sc.next, sc.played = sc.next+1, 0
	}
	return st, number, true
}

// unplayed returns an ErrUnplayed error if any steps are left, and nil otherwise. A Forever step
// does not count.
func (sc *script) unplayed() error {
	if sc.next == len(sc.steps) || sc.steps[sc.next].times == forever {
		return nil
	}
	st := sc.steps[sc.next]
	left := fmt.Sprintf("the script stopped before step %d of %d (%s)", sc.next+1, len(sc.steps), st)
	if st.count() > 1 {
		left += fmt.Sprintf(", played %d of %d times", sc.played, st.count())
	}
	return fmt.Errorf("%w: %s", ErrUnplayed, left)
}
