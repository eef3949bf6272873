package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// roundTime is the approximate duration of a contestant's turn in a round.
const roundTime = 20 * time.Millisecond

// A metric is a quantity measured in each round.
type metric string

const (
	nanoseconds metric = "ns/op"
	allocations metric = "allocs/op"
	allocated   metric = "B/op"
	bytesEach   metric = "bytes each"
	release     metric = "release"
	bytesOf     metric = "bytes"
)

// A result contains the samples of each lib for each metric, one per round.
type result map[string]map[metric][]float64

func (r result) add(lib string, m metric, sample float64) {
	if r[lib] == nil {
		r[lib] = make(map[metric][]float64)
	}
	r[lib][m] = append(r[lib][m], sample)
}

func (r result) median(lib string, m metric) float64 { return quantile(r[lib][m], 0.5) }

// ratios returns the ratios of lib to peer, round by round, or nil if either was not measured.
func (r result) ratios(lib, peer string, m metric) []float64 {
	a, b := r[lib][m], r[peer][m]
	if len(a) == 0 || len(a) != len(b) {
		return nil
	}
	all := make([]float64, len(a))
	for i := range a {
		all[i] = a[i] / b[i]
	}
	return all
}

// quantile interpolates between the nearest samples.
func quantile(samples []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return 0
	}
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i]
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// measure runs the contestants, which take turns.
func (s scenario) measure(rounds int) (result, error) {
	calls := make([]int, len(s.contestants))
	for i, c := range s.contestants {
		n, err := s.calibrate(c)
		if err != nil {
			return nil, err
		}
		calls[i] = n
	}
	r := make(result)
	for round := range s.roundsOf(rounds) {
		for _, i := range order(round, len(s.contestants)) {
			c := s.contestants[i]
			t, err := s.turn(c, calls[i])
			if err != nil {
				return nil, err
			}
			n := float64(calls[i])
			r.add(c.lib, nanoseconds, float64(t.elapsed.Nanoseconds())/n)
			r.add(c.lib, allocations, float64(t.mallocs)/n)
			r.add(c.lib, allocated, float64(t.bytes)/n)
			r.add(c.lib, bytesOf, float64(t.size))
		}
	}
	return r, nil
}

// order returns the order of the contestants in a round. The order is shuffled, so that no
// contestant always suffers the after-effects of the same predecessor, such as pending disk writes.
func order(round, n int) []int { return rand.New(rand.NewPCG(uint64(round), 0)).Perm(n) }

func (s scenario) roundsOf(rounds int) int { return max(1, rounds/max(1, s.roundsDivisor)) }

// calibrate returns the number of calls that take about roundTime.
func (s scenario) calibrate(c contestant) (calls int, err error) {
	if s.fixed > 0 {
		return s.fixed, nil
	}
	calls = 1000
	for range 3 {
		t, err := s.turn(c, calls)
		if err != nil {
			return 0, err
		}
		calls = max(1000, int(float64(calls)*float64(roundTime)/float64(t.elapsed)))
	}
	return calls, nil
}

// A turnCost is the cost of a turn.
type turnCost struct {
	elapsed time.Duration
	mallocs uint64
	bytes   uint64
	size    int
}

// turn creates an instance and makes the given number of calls with it.
func (s scenario) turn(c contestant, calls int) (turnCost, error) {
	in, w, cancel := c.begin()
	defer cancel()
	warmUp := min(calls/10, 2000)
	err := in.repeat(warmUp)
	var t turnCost
	if err == nil {
		t, err = in.take(calls)
	}
	if err == nil && in.stop != nil {
		err = in.stop()
	}
	if want := (warmUp + calls) * s.attempts; err == nil && w.calls != want {
		err = fmt.Errorf("the handler was called %d times, want %d", w.calls, want)
	}
	if err != nil {
		return turnCost{}, fmt.Errorf("%s/lib=%s: %w", s.name, c.lib, err)
	}
	return t, nil
}

// take measures all calls together, or one by one if the instance must be reset before each call.
func (in instance) take(calls int) (t turnCost, err error) {
	if in.reset == nil {
		return in.takeAtOnce(calls)
	}
	for range calls {
		if err := in.reset(); err != nil {
			return t, err
		}
		one, err := in.again().takeAtOnce(1)
		if err != nil {
			return t, err
		}
		t = turnCost{t.elapsed + one.elapsed, t.mallocs + one.mallocs, t.bytes + one.bytes, one.size}
	}
	return t, nil
}

// again returns the instance to use once it has been reset.
func (in instance) again() instance {
	in.reset = nil
	return in
}

func (in instance) takeAtOnce(calls int) (turnCost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := in.repeat(calls)
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	return turnCost{elapsed, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc, in.size}, err
}

// repeat makes the given number of calls, distributed over all callers.
func (in instance) repeat(calls int) error {
	if in.parallel <= 1 {
		return in.repeatAlone(calls)
	}
	ended := make(chan error)
	for i := range in.parallel {
		go func() { ended <- in.repeatAlone((calls + i) / in.parallel) }()
	}
	var errs []error
	for range in.parallel {
		errs = append(errs, <-ended)
	}
	return errors.Join(errs...)
}

func (in instance) repeatAlone(calls int) error {
	for range calls {
		if in.reset != nil {
			if err := in.reset(); err != nil {
				return err
			}
		}
		if out, err := in.call(); err != nil || out != answer {
			return fmt.Errorf("a call returned %d, %w", out, err)
		}
	}
	return nil
}
