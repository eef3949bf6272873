package snapshot

import (
	"maps"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

// retryFields is the number of pairs of a level.
const retryFields = 11

func writeRetryLevels(w *codec.Writer, levels retrylevel.Levels) {
	w.Map(len(levels))
	for _, key := range slices.Sorted(maps.Keys(levels)) {
		l := levels[key]
		w.Text(key)
		w.Map(retryFields)
		w.Key("disabled").Bool(l.Disabled)
		w.Key("max_attempts").Int(int64(l.MaxAttempts))
		w.Key("backoff").Text(l.Backoff)
		w.Key("initial_delay").Int(int64(l.InitialDelay))
		w.Key("max_delay").Int(int64(l.MaxDelay))
		w.Key("multiplier").Float(l.Multiplier)
		w.Key("jitter").Float(l.Jitter)
		w.Key("attempt_timeout").Int(int64(l.AttemptTimeout))
		w.Key("retry_timeout").Int(int64(l.RetryTimeout))
		w.Key("max_retry_after").Int(int64(l.MaxRetryAfter))
		w.Key("functions").Array(len(l.Functions))
		for _, name := range l.Functions {
			w.Text(name)
		}
	}
}

func readRetryLevels(in *codec.Reader) retrylevel.Levels {
	n := in.Map()
	if n == 0 {
		return nil
	}
	levels := make(retrylevel.Levels)
	for ; n > 0 && in.Err() == nil; n-- {
		key := in.Text()
		levels[key] = readRetryLevel(in)
	}
	return levels
}

func readRetryLevel(in *codec.Reader) (l retrylevel.Level) {
	for key := range in.Pairs() {
		switch key {
		case "disabled":
			l.Disabled = in.Bool()
		case "max_attempts":
			l.MaxAttempts = int(in.Int())
		case "backoff":
			l.Backoff = in.Name()
		case "initial_delay":
			l.InitialDelay = time.Duration(in.Int())
		case "max_delay":
			l.MaxDelay = time.Duration(in.Int())
		case "multiplier":
			l.Multiplier = in.Float()
		case "jitter":
			l.Jitter = in.Float()
		case "attempt_timeout":
			l.AttemptTimeout = time.Duration(in.Int())
		case "retry_timeout":
			l.RetryTimeout = time.Duration(in.Int())
		case "max_retry_after":
			l.MaxRetryAfter = time.Duration(in.Int())
		case "functions":
			for n := in.Array(); n > 0 && in.Err() == nil; n-- {
				l.Functions = append(l.Functions, in.Name())
			}
		default:
			in.Skip()
		}
	}
	return l
}
