package printer

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestDurationIsShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                  "<1ms",
		0:                             "<1ms",
		300 * time.Microsecond:        "<1ms",
		12 * time.Millisecond:         "12ms",
		99 * time.Millisecond:         "99ms",
		99_600 * time.Microsecond:     "0.1s",
		500 * time.Millisecond:        "0.5s",
		59_940 * time.Millisecond:     "59.9s",
		59_960 * time.Millisecond:     "1m00s",
		65 * time.Second:              "1m05s",
		3_599_600 * time.Millisecond:  "1h00m00s",
		2*time.Hour + 9*time.Second:   "2h00m09s",
		time.Duration(math.MaxInt64):  "2562047h47m16s",
		100*time.Hour + 1*time.Minute: "100h01m00s",
	} {
		assert.Equal(t, want, duration(d))
	}
}
