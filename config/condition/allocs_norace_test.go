//go:build !race

package condition_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
)

// Not run under the race detector, because there sync.Pool drops values at random.
func TestHoldsAllocatesTwiceAtMost(t *testing.T) {
	half := 0.5
	done := core.Attempt{Number: 3, Output: &response{StatusCode: 200, Success: true, Data: &data{State: "ready", Score: &half}}}
	failed := core.Attempt{Number: 2, Err: unavailable(503)}
	for text, a := range map[string]core.Attempt{
		"status_code >= 500":                           failed,
		"{{ status_code >= 500 or error != None }}":    failed,
		"{{ status_code == 200 and success == True }}": failed,
		"attempt < 5 and not success":                  failed,
		"data.score >= 0.25":                           done,
	} {
		c, err := condition.Compile(text)
		require.NoError(t, err)
		assert.LessOrEqual(t, testing.AllocsPerRun(500, func() { c.Holds(a) }), 2.0, text)
	}
}
