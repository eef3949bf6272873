package main

import (
	"fmt"
	"testing"
)

func BenchmarkSuccess(b *testing.B)              { benchmark(b, "Success") }
func BenchmarkTimeout(b *testing.B)              { benchmark(b, "Timeout") }
func BenchmarkTwoFailures(b *testing.B)          { benchmark(b, "TwoFailures") }
func BenchmarkTwoFailuresListeners(b *testing.B) { benchmark(b, "TwoFailuresListeners") }
func BenchmarkEncode(b *testing.B)               { benchmark(b, "Encode") }
func BenchmarkDecode(b *testing.B)               { benchmark(b, "Decode") }
func BenchmarkPrint(b *testing.B)                { benchmark(b, "Print") }
func BenchmarkDurable(b *testing.B)              { benchmark(b, "Durable") }
func BenchmarkReplay1000(b *testing.B)           { benchmark(b, "Replay1000") }
func BenchmarkReplay10000(b *testing.B)          { benchmark(b, "Replay10000") }
func BenchmarkRuns(b *testing.B)                 { benchmark(b, runsName) }
func BenchmarkWorkers(b *testing.B)              { benchmark(b, workersName) }
func BenchmarkGroup(b *testing.B)                { benchmark(b, groupName) }

func BenchmarkLLM(b *testing.B)       { benchmark(b, "LLM") }
func BenchmarkLLMStream(b *testing.B) { benchmark(b, "LLMStream") }
func BenchmarkLLMAgent(b *testing.B)  { benchmark(b, "LLMAgent") }

func benchmark(b *testing.B, name string) {
	for _, c := range find(b, name).all() {
		b.Run("lib="+c.lib, func(b *testing.B) {
			in, _, cancel := c.begin()
			defer cancel()
			b.ReportAllocs()
			if in.size > 0 {
				defer func() { b.ReportMetric(float64(in.size), "bytes") }()
			}
			run(b, in)
			if in.stop == nil {
				return
			}
			if err := in.stop(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// run makes as many calls as the benchmark asks for.
func run(b *testing.B, in instance) {
	if in.parallel > 1 {
		b.ResetTimer()
		if err := in.repeat(b.N); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		return
	}
	for b.Loop() {
		if in.reset != nil {
			b.StopTimer()
			if err := in.reset(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		if out, err := in.call(); err != nil || out != answer {
			b.Fatal(out, err)
		}
	}
}

// BenchmarkRecord's ns/op are of no interest.
func BenchmarkRecord(b *testing.B) {
	for _, c := range recordContestants {
		b.Run("lib="+c.lib, func(b *testing.B) {
			var total float64
			for b.Loop() {
				ns, err := c.sample()
				if err != nil {
					b.Fatal(err)
				}
				total += ns
			}
			b.ReportMetric(total/float64(b.N), "ns/record")
		})
	}
}

// BenchmarkFanOut starts two processes for each measurement. Its ns/op are of
// no interest.
func BenchmarkFanOut(b *testing.B) {
	for _, f := range fanOuts {
		for _, c := range fanOutContestants {
			b.Run(fmt.Sprintf("clients=%d/lib=%s", f.Clients, c.lib), func(b *testing.B) {
				var sum serverReport
				for b.Loop() {
					r, err := c.inChild(f)
					if err != nil {
						b.Fatal(err)
					}
					sum.Missing += r.Missing
					sum.Flood += r.Flood
					sum.PacedCPU += r.PacedCPU
					sum.BytesEach += r.BytesEach
				}
				n := float64(b.N)
				b.ReportMetric(sum.Flood/n, "ns/delivery")
				b.ReportMetric(sum.PacedCPU/n, "CPU-ns/paced")
				b.ReportMetric(sum.BytesEach/n, "B/client")
				b.ReportMetric(float64(sum.Missing)/n, "missing")
			})
		}
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
	for _, s := range sleeperContestants {
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
