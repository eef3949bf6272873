package snapshot_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// TestMessageIDIsAFileName includes questions whose names cannot be file names.
func TestMessageIDIsAFileName(t *testing.T) {
	cancel := storetest.Interrupt(0, "stop")
	cancel.Record.Status = record.StatusCancelled
	for _, m := range []*snapshot.Message{
		new(storetest.Answer("../größe?\x00", "yes")), new(storetest.Answer(strings.Repeat("a", 1000), "yes")),
		new(storetest.Interrupt(math.MaxUint64, "stop")), &cancel,
	} {
		assert.Regexp(t, `^[a-z0-9-]{1,39}$`, m.ID())
	}
}
