package main

import (
	"testing"
)

func BenchmarkSuccess(b *testing.B)              { benchmark(b, "Success") }
func BenchmarkTimeout(b *testing.B)              { benchmark(b, "Timeout") }
func BenchmarkTwoFailures(b *testing.B)          { benchmark(b, "TwoFailures") }
func BenchmarkTwoFailuresListeners(b *testing.B) { benchmark(b, "TwoFailuresListeners") }

func benchmark(b *testing.B, name string) {
	for _, c := range find(b, name).contestants {
		b.Run("lib="+c.lib, func(b *testing.B) {
			in, _, cancel := c.begin()
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if out, err := in.call(); err != nil || out != answer {
					b.Fatal(out, err)
				}
			}
			if in.stop == nil {
				return
			}
			if err := in.stop(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func find(t testing.TB, name string) scenario {
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scenario %s", name)
	return scenario{}
}

// BenchmarkSleepers starts a process for each measurement. Its ns/op are of
// no interest.
func BenchmarkSleepers(b *testing.B) {
	for _, s := range sleepingContestants {
		b.Run("lib="+s.lib, func(b *testing.B) {
			var bytes, seconds float64
			for b.Loop() {
				r, err := s.inChild(*sleepers)
				if err != nil {
					b.Fatal(err)
				}
				bytes += r.BytesEach
				seconds += r.Release
			}
			b.ReportMetric(bytes/float64(b.N), "B/call")
			b.ReportMetric(seconds*1000/float64(b.N), "ms-release")
		})
	}
}
