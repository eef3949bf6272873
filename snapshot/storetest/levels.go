package storetest

import (
	"reflect"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

func retryLevels(f *fixture) {
	level := retrylevel.Level{MaxAttempts: 5, Backoff: "linear", InitialDelay: time.Second, Multiplier: 1.5, Jitter: -1, Functions: []string{"RetryOn"}}
	first, second := retrylevel.Levels{retrylevel.All: level}, retrylevel.Levels{"llm_call": {Disabled: true, MaxAttempts: 1}}
	for _, opening := range []struct{ given, want retrylevel.Levels }{
		{first, first}, {nil, first}, {second, second}, {retrylevel.Levels{}, nil},
	} {
		j, err := f.store.Open(f.Context(), "run", snapshot.OpenOptions{Create: true, Retry: opening.given.Clone()})
		f.must(err)
		while := f.load("run")
		f.must(closeAs(j, snapshot.StatusCompleted))
		all := f.infos(snapshot.Filter{})
		for _, info := range []snapshot.Info{while.Info, f.load("run").Info, j.Restored().Info, all[0]} {
			if !reflect.DeepEqual(info.Retry, opening.want) {
				f.Errorf("opened with %+v, the levels are %+v, not %+v", opening.given, info.Retry, opening.want)
			}
		}
	}
}
