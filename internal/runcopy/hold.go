package runcopy

import (
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Hold changes the info of a run that is about to be imported, so that no runner continues the run
// on its own. Otherwise, the original might continue too, and the calls would have their effects
// twice. Hold does not change the info of a run that has ended, or that is waiting for a decision
// anyway. It reports whether it changed info.
func Hold(info *snapshot.Info) bool {
	isInterrupted := info.Status == snapshot.StatusInterrupted
	if info.Status.HasEnded() || isInterrupted && !info.Stop.Reason.ContinuesByItself() {
		return false
	}
	message := "imported"
	switch {
	case info.Stop.Reason == record.InterruptCancel: // the request is a message, which is not imported
		message += " while it was being cancelled; cancel it again"
	case info.Program != "":
		message += "; it continues when it is resumed"
	}
	info.Status, info.Due = snapshot.StatusInterrupted, time.Time{}
	info.Stop = snapshot.Stop{Reason: record.InterruptUser, Message: message}
	return true
}
