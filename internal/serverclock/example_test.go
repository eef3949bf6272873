package serverclock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/internal/serverclock"
)

func Example() {
	clock := serverclock.New(func(context.Context) (time.Time, error) {
		return time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), nil // the time of the server
	})
	now, err := clock.Now(context.Background())
	fmt.Println(now, err)
	// Output: 2026-01-05 09:00:00 +0000 UTC <nil>
}
