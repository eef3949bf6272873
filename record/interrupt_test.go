package record_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
)

func TestARunContinuesByItselfUnlessSomebodyStoppedIt(t *testing.T) {
	for reason, want := range map[record.InterruptReason]bool{
		record.InterruptCrash: true, record.InterruptShutdown: true, record.InterruptClosed: true, record.InterruptContext: true,
		record.InterruptStore: true, record.InterruptLeaseLost: true, record.InterruptCancel: true,

		record.InterruptUser: false, record.InterruptCrashLoop: false, record.InterruptTimeout: false, record.InterruptReplay: false,
		record.InterruptDiverge: false, record.InterruptRetry: false, record.InterruptFork: false, "maintenance": false, "": false,
	} {
		assert.Equal(t, want, reason.ContinuesByItself(), "%q", reason)
	}
}
