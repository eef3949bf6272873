package core

import "time"

// Delay is the delay before retry n, from 1, without jitter.
func (p *Policy) Delay(n int) time.Duration { return p.delay(n) }
