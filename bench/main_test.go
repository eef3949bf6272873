package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/snapshot"
)

// TestMain lets the test binary run as the child process of Sleepers and FanOut.
func TestMain(m *testing.M) {
	flag.Parse()
	if isChild, err := runChild(); isChild {
		exitOn(err)
		return
	}
	code := m.Run()
	_ = stopPostgres()
	removeScratch()
	os.Exit(code)
}

func TestContestantsDoTheirWork(t *testing.T) {
	for _, s := range scenarios {
		calls := 5
		if s.fixed == 1 && s.attempts > 1 {
			calls = 1 // one call in this scenario starts many runs
		}
		for _, c := range s.all() {
			if s.name == workersName && (!strings.HasSuffix(c.lib, "-2") || strings.Contains(c.lib, "always")) {
				continue // the others differ from these, or from those of Runs, only in a number
			}
			t.Run(s.name+"/lib="+c.lib, func(t *testing.T) {
				in, w, cancel := c.begin()
				defer cancel()
				if err := in.repeat(calls); err != nil {
					t.Fatal(err)
				}
				if in.stop != nil {
					if err := in.stop(); err != nil {
						t.Fatal(err)
					}
				}
				if w.calls != calls*s.attempts {
					t.Errorf("%d calls made %d attempts; want %d each", calls, w.calls, s.attempts)
				}
				if in.notified == nil {
					return
				}
				if got, want := in.notified(), notifications(c.lib, s.name, calls); got != want {
					t.Errorf("listeners were called %d times; want %d", got, want)
				}
			})
		}
	}
}

func TestAgentsSendTheResultsOfTheirTools(t *testing.T) {
	for _, c := range find(t, "LLMAgent").contestants {
		if _, listed := agents[c.lib]; !listed {
			t.Errorf("no agent %s", c.lib)
		}
	}
	for lib, agent := range agents {
		t.Run("lib="+lib, func(t *testing.T) {
			server := startLLMServer()
			defer func() {
				if err := server.stop(); err != nil {
					t.Error(err)
				}
			}()
			seen := &requests{}
			defer seen.CloseIdleConnections()
			call := agent(server.url, &http.Client{Transport: seen})
			for range 2 { // the second call must not see state left by the first
				seen.results = nil
				if err := call(); err != nil {
					t.Fatal(err)
				}
				if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(seen.results, want) {
					t.Errorf("requests have %v results; want %v", seen.results, want)
				}
			}
		})
	}
}

var agents = map[string]func(url string, client *http.Client) func() error{
	"reprise": agentReprise, "go-openai": agentGoOpenAI, "eino": agentEino, "adk": agentADK, "genkit": agentGenkit,
}

// requests records how many different tool results each request contains.
type requests struct {
	http.Transport
	results []int
}

// RoundTrip implements [http.RoundTripper].
func (s *requests) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var sent struct {
		Messages []struct {
			Role    string
			Content json.RawMessage // text, or a list of parts
		}
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, err
	}
	n := 0
	for _, m := range sent.Messages {
		if m.Role == "tool" && strings.Contains(string(m.Content), strconv.Itoa(n+1)) {
			n++
		}
	}
	s.results = append(s.results, n)
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return s.Transport.RoundTrip(r)
}

// notifications returns how often listeners are called for the given number of calls.
func notifications(lib, scenario string, calls int) int {
	retries := 0
	if find(nil, scenario).attempts > 1 {
		retries = 2
	}
	switch lib {
	case "reprise-run-listener", "reprise-run-subscriber":
		return calls*(2+3*retries) + 2 // plus the beginning and end of the run
	case "failsafe-listeners":
		// The policy's OnSuccess, and the executor's OnSuccess and OnDone; for each retry
		// OnFailure, OnRetryScheduled and OnRetry.
		return calls * (3 + 3*retries)
	}
	return calls * retries
}

func TestRecordingsRecord(t *testing.T) {
	for _, c := range recordContestants {
		if c.length > 10_000 {
			continue
		}
		t.Run("lib="+c.lib, func(t *testing.T) {
			if elapsed, err := c.measure(2); err != nil || elapsed <= 0 {
				t.Errorf("took %v, %v", elapsed, err)
			}
		})
	}
}

func TestCodecsKeepWhatTheyEncode(t *testing.T) {
	r := failedAttempt(2)
	data, err := snapshot.AppendRecord(nil, &r)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := snapshot.DecodeRecord(data); err != nil || !reflect.DeepEqual(back, r) { //nolint:govet // the error is a *record.Error, which is data
		t.Errorf("reprise: got %+v, %v; want %+v", back, err, r)
	}
	plain := plainAttempt()
	for name, c := range map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{"msgpack": {msgpack.Marshal, msgpack.Unmarshal}, "json": {json.Marshal, json.Unmarshal}} {
		data, err := c.marshal(&plain)
		if err != nil {
			t.Fatal(name, err)
		}
		var back plainRecord
		if err := c.unmarshal(data, &back); err != nil {
			t.Fatal(name, err)
		}
		back.Time = back.Time.UTC()
		if !reflect.DeepEqual(back, plain) {
			t.Errorf("%s: got %+v; want %+v", name, back, plain)
		}
	}
}

func TestSleepersSleepUntilWoken(t *testing.T) {
	for _, s := range sleeperContestants {
		t.Run("lib="+s.lib, func(t *testing.T) {
			r, err := s.sleep(20, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if r.Release <= 0 || r.Release > 10 {
				t.Errorf("took %v s to return", r.Release)
			}
		})
	}
}

func TestSleepersInProcessOfTheirOwn(t *testing.T) {
	r, err := sleeperContestants[0].inChild(100)
	if err != nil {
		t.Fatal(err)
	}
	if r.Release <= 0 {
		t.Errorf("got %+v", r)
	}
}

func TestTargetsNameContestants(t *testing.T) {
	libs := map[string][]string{}
	for _, s := range scenarios {
		for _, c := range slices.Concat(s.contestants, s.postgres) {
			libs[s.name] = append(libs[s.name], c.lib)
		}
		if !slices.Contains(libs[s.name], s.peer) {
			t.Errorf("%s: no contestant %s", s.name, s.peer)
		}
	}
	for _, c := range recordContestants {
		libs[recordName] = append(libs[recordName], c.lib)
		if !slices.Contains(libs[recordName], c.first()) {
			t.Errorf("%s: no contestant %s", recordName, c.first())
		}
	}
	for _, f := range fanOuts {
		for _, b := range fanOutContestants {
			libs[f.name()] = append(libs[f.name()], b.lib)
		}
		if !slices.Contains(libs[f.name()], fanOutPeer) {
			t.Errorf("%s: no contestant %s", f.name(), fanOutPeer)
		}
	}
	for _, s := range sleeperContestants {
		libs[sleepersName] = append(libs[sleepersName], s.lib)
	}
	for _, g := range targets {
		if !slices.Contains(libs[g.scenario], g.lib) || g.peer != "" && !slices.Contains(libs[g.scenario], g.peer) {
			t.Errorf("no contestants for %+v", g)
		}
	}
}

func TestQuantileInterpolates(t *testing.T) {
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.25, 1.75}, {0.5, 2.5}, {1, 4}} {
		if got := quantile([]float64{4, 1, 3, 2}, c.q); got != c.want {
			t.Errorf("quantile %v is %v; want %v", c.q, got, c.want)
		}
	}
}
