package cache_test

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/state"
)

// The second run uses the cached output.
func Example() {
	type City struct {
		Name string `json:"name"`
	}
	answers := cache.New(cache.NewMemory(64<<20), cache.Options{})
	weather := decorators.Tool("get_weather", "Current weather in a city.",
		func(_ context.Context, in City) (string, error) {
			fmt.Println("asked for", in.Name)
			return "4 °C", nil
		}, actors.WithCache(answers, "1", 10*time.Minute))
	for range 2 {
		st := state.New()
		out, err := weather.Call(st.Context(context.Background()), City{Name: "Oslo"})
		fmt.Println(out, err, st.Report().Cached)
		if err := st.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// asked for Oslo
	// 4 °C <nil> 0
	// 4 °C <nil> 1
}
