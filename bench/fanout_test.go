package main

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/reprise-go/reprise/record"
)

var fewClients = fanOut{Clients: 5, Flood: 100, Paced: 20, Rate: 500}

func TestEveryClientOfFanOutGetsEverything(t *testing.T) {
	for _, b := range fanOutContestants {
		t.Run("lib="+b.lib, func(t *testing.T) {
			t.Parallel()
			r, err := b.inChild(fewClients)
			if err != nil {
				t.Fatal(err)
			}
			if r.Missing != 0 || r.Flood <= 0 || r.Latency50 <= 0 || r.Latency99 < r.Latency50 || r.BytesEach == 0 { // with few clients, the measured memory may be negative
				t.Errorf("got %+v", r)
			}
		})
	}
}

func TestRecordOfFanOutIsAsLongAsTheTablesSay(t *testing.T) {
	s := stage{seq: 999}
	data, err := json.Marshal(s.record(time.Now().UTC()))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) < 250 || len(data) > 350 {
		t.Errorf("the record has %d bytes: %s", len(data), data)
	}
}

// TestFanOutNoticesWhatIsMissing uses servers that omit an event or send one twice.
func TestFanOutNoticesWhatIsMissing(t *testing.T) {
	const nth = 60
	for name, times := range map[string]int{"left out": 0, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := fanOutContestant{name, func(clients int) (broadcaster, error) {
				open, err := fanOutContestants[1].open(clients)
				publish := open.publish
				open.publish = func(r record.Record) (err error) {
					if r.Seq != nth {
						return publish(r)
					}
					for range times {
						err = errors.Join(err, publish(r))
					}
					return err
				}
				return open, err
			}}
			r, err := b.serve(fewClients)
			if err != nil {
				t.Fatal(err)
			}
			if r.Missing == 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestContestantThatLosesEventsHasLost checks that a contestant that has lost events misses its
// targets.
func TestContestantThatLosesEventsHasLost(t *testing.T) {
	loser, winner := serverReport{Missing: 1, Flood: 100}.lost(), serverReport{Flood: 1e6}
	r := make(result)
	for lib, one := range map[string]serverReport{"reprise": loser, "other": winner, "third": loser} {
		r.add(lib, perDelivery, one.Flood)
	}
	for _, peer := range []string{"other", "third"} {
		g := target{"FanOut", "reprise", perDelivery, peer, 0.25}
		figure, measured := g.judge(map[string]result{"FanOut": r})
		if verdict := g.verdict(figure); !measured || verdict != "missed" {
			t.Errorf("beside %s: %v, %s", peer, figure, verdict)
		}
	}
}
