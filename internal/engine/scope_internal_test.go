package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
)

// A call that is still running when the surrounding handler returns is interrupted. By that time
// the outcome of the attempt is decided and must not change.
func TestAttemptThatIsOverIsNotStopped(t *testing.T) {
	s := &Scope{root: outside}
	s.close()
	s.stop(&InterruptedError{Reason: record.InterruptParent})
	s.stop(&InterruptedError{Reason: record.InterruptParent, Origin: s})
	assert.Nil(t, s.suspended(), "suspended")
	assert.False(t, s.hasMissedDeadline(), "missed its deadline")
}
