package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A part describes one part of the measurement. It is sent to the readers before that part begins.
type part struct {
	Last  uint64 `json:"last"` // number of the part's last record
	Timed bool   `json:"timed"`
}

// A readersReport is what the readers report after a part, when every client has the part's last
// record or the readers have given up.
type readersReport struct {
	At        int64         `json:"at"`      // Unix time in ns
	Missing   int           `json:"missing"` // missing or out-of-order deliveries
	CPU       time.Duration `json:"cpu"`     // CPU time of the process
	Latency50 float64       `json:"latency_50"`
	Latency99 float64       `json:"latency_99"`
}

const (
	missingTimeout = 20 * time.Second // how long to wait for missing events
	timedClients   = 100              // number of clients whose latency is measured
)

// fanOutReaders runs in the clients' process. It reads parts and writes reports.
func fanOutReaders(address, size string, in io.Reader, out io.Writer) error {
	var f fanOut
	if err := json.Unmarshal([]byte(size), &f); err != nil {
		return fmt.Errorf("-fanout %q: %w", size, err)
	}
	target, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("-fanout-clients: %w", err)
	}
	a := &audience{done: make(chan time.Time, 1), arrived: make(chan struct{})}
	a.absent.Store(int64(f.Clients))
	defer a.leave()
	for i := range f.Clients {
		conn, err := net.Dial("tcp", target.Host)
		if err != nil {
			return fmt.Errorf("client %d of %d: %w", i, f.Clients, err)
		}
		c := &client{conn: conn, timed: i%max(1, f.Clients/timedClients) == 0}
		a.clients = append(a.clients, c)
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", target.RequestURI()); err != nil {
			return err
		}
		// If a connection ends early, the records that it has not delivered count as
		// missing.
		a.reading.Go(func() { _ = c.read(a) })
	}
	return a.converse(json.NewDecoder(in), json.NewEncoder(out))
}

// An audience is the set of all clients.
type audience struct {
	clients []*client
	reading sync.WaitGroup

	absent  atomic.Int64  // number of clients that have not received anything yet
	arrived chan struct{} // closed when absent is zero

	last  atomic.Uint64 // number of the last record of the part
	timed atomic.Bool
	left  atomic.Int64   // number of clients that have not received the last record yet
	done  chan time.Time // receives the time at which left became zero
}

func (a *audience) converse(dec *json.Decoder, enc *json.Encoder) error {
	select {
	case <-a.arrived:
	case <-time.After(missingTimeout):
		return fmt.Errorf("after %v, %d clients have received no event", missingTimeout, a.absent.Load())
	}
	if err := enc.Encode(readersReport{}); err != nil {
		return err
	}
	for {
		var p part
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a.left.Store(int64(len(a.clients)))
		a.timed.Store(p.Timed)
		a.last.Store(p.Last)
		cpu := cpuTime()
		if err := enc.Encode(readersReport{}); err != nil {
			return err
		}
		h := a.hear()
		h.CPU = cpuTime() - cpu
		if err := enc.Encode(h); err != nil {
			return err
		}
	}
}

// hear waits until all clients have received the whole part.
func (a *audience) hear() (h readersReport) {
	select {
	case at := <-a.done:
		h.At = at.UnixNano()
	case <-time.After(missingTimeout):
	}
	var latencies []float64
	for _, c := range a.clients {
		h.Missing += int(c.missing.Load() + a.last.Load() - min(a.last.Load(), c.seq.Load()))
		if h.Missing == 0 {
			latencies = append(latencies, c.latencies...)
			c.latencies = c.latencies[:0]
		}
	}
	h.Latency50, h.Latency99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
	return h
}

func (a *audience) leave() {
	for _, c := range a.clients {
		_ = c.conn.Close()
	}
	a.reading.Wait()
}

// A client is a connection.
type client struct {
	conn      net.Conn
	timed     bool
	seq       atomic.Uint64 // number of the newest event
	missing   atomic.Uint64 // missing or out-of-order events
	latencies []float64     // ns
}

// read reads events until the connection ends.
func (c *client) read(a *audience) error {
	const size = 32 << 10
	response, err := http.ReadResponse(bufio.NewReaderSize(c.conn, size), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	buffer, have := make([]byte, size), 0
	for {
		n, err := response.Body.Read(buffer[have:])
		if err != nil {
			return err
		}
		now := time.Now()
		rest := buffer[:have+n]
		for {
			event, after, whole := bytes.Cut(rest, blankLine)
			if !whole {
				break
			}
			c.take(event, now, a)
			rest = after
		}
		have = copy(buffer, rest)
	}
}

var (
	blankLine = []byte("\n\n")
	beforeSeq = []byte(`data: {"run_id":"` + runID + `","seq":`)
	afterSeq  = []byte(`,"time":"`)
)

// take counts an event. Data without a record is not an event.
func (c *client) take(event []byte, now time.Time, a *audience) {
	_, rest, found := bytes.Cut(event, beforeSeq)
	if !found {
		return
	}
	seq := uint64(0)
	for len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9' {
		seq = seq*10 + uint64(rest[0]-'0')
		rest = rest[1:]
	}
	switch next := c.seq.Load() + 1; {
	case next == 1:
		if a.absent.Add(-1) == 0 {
			close(a.arrived)
		}
	case seq != next:
		c.missing.Add(max(seq, next) - min(seq, next))
	}
	c.seq.Store(seq)
	if c.timed && a.timed.Load() {
		c.time(rest, now)
	}
	if seq == a.last.Load() && a.left.Add(-1) == 0 {
		a.done <- now
	}
}

// time records the age of an event.
func (c *client) time(rest []byte, now time.Time) {
	rest, found := bytes.CutPrefix(rest, afterSeq)
	text, _, ended := bytes.Cut(rest, []byte(`"`))
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if !found || !ended || err != nil {
		c.missing.Add(1)
		return
	}
	c.latencies = append(c.latencies, float64(now.Sub(at)))
}
