package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strconv"

	r3labs "github.com/r3labs/sse/v2"
	tmaxmax "github.com/tmaxmax/go-sse"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

const (
	fanOutPeer   = "r3labs"
	fanOutPasses = 3  // pairs of processes for each contestant
	spareFiles   = 50 // files that a process has open in addition to its clients
)

// A fanOut configures the clients and the events sent to them.
type fanOut struct {
	Clients int `json:"clients"`
	Flood   int `json:"flood"` // events published as fast as possible; no more than a streamer keeps
	Paced   int `json:"paced"` // events published at a constant rate
	Rate    int `json:"rate"`  // rate of the paced events, per second
}

func (f fanOut) name() string { return "FanOut" + strconv.Itoa(f.Clients) }

// String returns JSON, to be passed as a flag to a child process.
func (f fanOut) String() string {
	data, err := json.Marshal(f)
	if err != nil {
		panic(err) // numbers can always be encoded
	}
	return string(data)
}

var fanOuts = []fanOut{
	{Clients: 1, Flood: 10_000, Paced: 1000, Rate: 1000},
	{Clients: 100, Flood: 2000, Paced: 1000, Rate: 1000},
	{Clients: 1000, Flood: 500, Paced: 100, Rate: 100},
}

// fanOutContestant is a contestant of FanOut.
type fanOutContestant struct {
	lib  string
	open func(clients int) (broadcaster, error)
}

func (b fanOutContestant) String() string { return b.lib }

// A broadcaster sends every record to all clients that have the path open.
type broadcaster struct {
	handler http.Handler
	path    string
	publish func(record.Record) error
	close   func() error // called when the clients have disconnected
}

var fanOutContestants = []fanOutContestant{
	{"reprise", func(clients int) (broadcaster, error) {
		h, err := streamer.New(nil, streamer.Options{Clients: clients})
		if err != nil {
			return broadcaster{}, err
		}
		publish := func(r record.Record) error {
			h.Publish(r)
			return nil
		}
		return broadcaster{h, "/events", publish, func() error { return h.Close(context.Background()) }}, nil
	}},
	{"r3labs", func(int) (broadcaster, error) {
		server := r3labs.New()
		server.CreateStream("runs")
		publish := func(r record.Record) error {
			data, err := json.Marshal(r)
			if err == nil {
				server.Publish("runs", &r3labs.Event{Event: []byte(r.Status.String()), Data: data})
			}
			return err
		}
		stop := func() error {
			server.Close()
			return nil
		}
		return broadcaster{server, "/events?stream=runs", publish, stop}, nil
	}},
	{"go-sse", func(int) (broadcaster, error) {
		server := &tmaxmax.Server{Provider: &tmaxmax.Joe{}}
		publish := func(r record.Record) error {
			data, err := json.Marshal(r)
			if err != nil {
				return err
			}
			m := &tmaxmax.Message{ID: tmaxmax.ID(strconv.FormatUint(r.Seq, 10)), Type: tmaxmax.Type(r.Status.String())}
			m.AppendData(string(data))
			return server.Publish(m)
		}
		return broadcaster{server, "/events", publish, func() error { return server.Shutdown(context.Background()) }}, nil
	}},
}

// The metrics of FanOut, in addition to bytesEach.
const (
	perDelivery metric = "ns/delivery"  // flood
	floodCPU    metric = "CPU ns"       // the server's CPU time per delivery in the flood
	pacedCPU    metric = "paced CPU ns" // the server's CPU time per delivery of paced events
	latency50   metric = "latency 50 %" // paced, in ns
	latency99   metric = "latency 99 %" // likewise
	clientShare metric = "clients"      // share of the flood's time during which the clients' process was busy
	missing     metric = "missing"      // missing deliveries
)

// inChild measures with a server in a child process, which starts another process to run the
// clients.
func (b fanOutContestant) inChild(f fanOut) (serverReport, error) {
	program, err := os.Executable()
	if err != nil {
		return serverReport{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program, "-fanout-server", b.lib, "-fanout", f.String(), "-profiles", *profiles)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var r serverReport
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%s/lib=%s: %w: %s", f.name(), b.lib, err, &stderr)
	}
	err = json.Unmarshal(stdout.Bytes(), &r)
	return r, err
}

func measureFanOut(f fanOut, contestants []fanOutContestant) (result, error) {
	r := make(result)
	for pass := range fanOutPasses {
		for _, i := range order(pass, len(contestants)) {
			b := contestants[i]
			one, err := b.inChild(f)
			if err != nil {
				return nil, err
			}
			if one.Missing > 0 {
				one = one.lost()
			}
			r.add(b.lib, perDelivery, one.Flood)
			r.add(b.lib, floodCPU, one.FloodCPU)
			r.add(b.lib, pacedCPU, one.PacedCPU)
			r.add(b.lib, latency50, one.Latency50)
			r.add(b.lib, latency99, one.Latency99)
			r.add(b.lib, clientShare, one.Clients)
			r.add(b.lib, bytesEach, one.BytesEach)
			r.add(b.lib, missing, float64(one.Missing))
		}
	}
	return r, nil
}

// lost returns the result of a contestant that has not delivered every event.
func (r serverReport) lost() serverReport {
	most := math.MaxFloat64
	return serverReport{
		Missing: r.Missing, Flood: most, FloodCPU: most, Clients: most, PacedCPU: most,
		Latency50: most, Latency99: most, BytesEach: most,
	}
}

func printFanOut(f fanOut, contestants []fanOutContestant, r result) {
	fmt.Printf("\n%s: %d events as fast as %d clients receive them, then %d per second. Ratios to %s.\n\n",
		f.name(), f.Flood, f.Clients, f.Rate, fanOutPeer)
	t := table{{
		"lib", "deliveries/s", "ratio", "25–75 %", "CPU µs", "clients %",
		"paced CPU µs", "ratio", "50 % in ms", "99 % in ms", "bytes each", "ratio", "missing",
	}}
	for _, b := range contestants {
		figure := func(m metric, unit float64, digits int) string {
			if r.median(b.lib, missing) > 0 {
				return "lost"
			}
			return strconv.FormatFloat(r.median(b.lib, m)/unit, 'f', digits, 64)
		}
		ratio := func(m metric) string {
			text, _ := formatRatios(r.ratios(b.lib, fanOutPeer, m))
			return text
		}
		// The row shows deliveries per second, of which more is better, so the peer's time comes
		// first.
		speed, spread := formatRatios(r.ratios(fanOutPeer, b.lib, perDelivery))
		each, eachRatio := figure(bytesEach, 1, 0), ratio(bytesEach)
		if f.Clients == 1 {
			each, eachRatio = "", "" // most of it would be the startup of the process
		}
		row := []string{
			b.lib, fmt.Sprintf("%.0f", 1e9/r.median(b.lib, perDelivery)), speed, spread,
			figure(floodCPU, 1e3, 2), figure(clientShare, 0.01, 0),
			figure(pacedCPU, 1e3, 2), ratio(pacedCPU), figure(latency50, 1e6, 2), figure(latency99, 1e6, 2),
			each, eachRatio, fmt.Sprintf("%.0f", r.median(b.lib, missing)),
		}
		t = append(t, row)
	}
	t.print()
}
