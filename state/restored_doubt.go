package state

import "github.com/reprise-go/reprise/core"

// doubt says what is not known about the latest attempt of a call: whether its
// handler took effect.
type doubt uint8

const (
	doubtNone        doubt = iota
	doubtStarted           // it was begun, and nothing tells how it ended
	doubtInterrupted       // its handler was interrupted
)

// after is the doubt that is left when rec has followed. A call that is
// stopped before it goes on, as by an interrupt or by the question about it, is
// as much in doubt as it was.
func (d doubt) after(rec *core.Record) doubt {
	switch {
	case rec.Status == core.StatusStarted:
		return doubtStarted
	case rec.IsSuspension() && rec.Stage == core.StageEntry:
		return d
	case rec.Status == core.StatusInterrupted && rec.Stage == core.StageHandler:
		return doubtInterrupted
	}
	return doubtNone
}
