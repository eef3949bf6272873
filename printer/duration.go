package printer

import (
	"fmt"
	"time"
)

// duration formats d for people, as in "<1ms", "12ms", "0.5s", "1m05s" or "2h00m09s".
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1ms"
	case d.Round(time.Millisecond) < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Round(time.Millisecond).Milliseconds())
	case d.Round(100*time.Millisecond) < time.Minute:
		return fmt.Sprintf("%.1fs", d.Round(100*time.Millisecond).Seconds())
	}
	s := int64(d.Round(time.Second) / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm%02ds", s/3600, s/60%60, s%60)
}
