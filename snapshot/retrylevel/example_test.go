package retrylevel_test

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

func Example() {
	policy, err := core.NewPolicy(core.RetryConfig{MaxAttempts: 5, InitialDelay: 2 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	levels := retrylevel.Levels{retrylevel.ActorPrefix + "get_weather": retrylevel.Of(policy)}
	for key, level := range levels {
		fmt.Println(key, "=", level)
	}
	// Output:
	// actor:get_weather = 5 attempts, exponential ×2 from 2s to 1m0s, jitter 0.25, Retry-After up to 5m0s
}
