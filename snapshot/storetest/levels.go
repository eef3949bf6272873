package storetest

import (
	"reflect"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

func retryLevels(f *fixture) {
	level := snapshot.RetryLevel{MaxAttempts: 5, Backoff: "linear", InitialDelay: time.Second, Multiplier: 1.5, Jitter: "none", Functions: []string{"RetryOn"}}
	first, second := snapshot.RetryLevels{snapshot.RetryOfAll: level}, snapshot.RetryLevels{"llm_call": {MaxAttempts: 1}}
	for _, opening := range []struct{ given, want snapshot.RetryLevels }{
		{first, first}, {nil, first}, {second, second}, {snapshot.RetryLevels{}, nil},
	} {
		j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Retry: opening.given.Clone()})
		f.must(err)
		while := f.load("run")
		f.must(closeAs(j, snapshot.StatusCompleted))
		all := f.infos(snapshot.Filter{})
		for _, info := range []snapshot.Info{while.Info, f.load("run").Info, j.Restored().Info, all[0]} {
			if !reflect.DeepEqual(info.Retry, opening.want) {
				f.Errorf("after Open with the levels %+v, the levels are %+v, want %+v", opening.given, info.Retry, opening.want)
			}
		}
	}
}
