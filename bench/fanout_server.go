package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A serverReport is what the server's process prints. Times are in nanoseconds.
type serverReport struct {
	Missing   int     `json:"missing"` // missing deliveries; if there are any, the other fields are meaningless
	Flood     float64 `json:"flood"`   // per delivery
	FloodCPU  float64 `json:"flood_cpu"`
	Clients   float64 `json:"clients"` // share of the flood's time during which the clients' process was busy
	PacedCPU  float64 `json:"paced_cpu"`
	Latency50 float64 `json:"latency_50"`
	Latency99 float64 `json:"latency_99"`
	BytesEach float64 `json:"bytes_each"`
}

// fanOutServer runs in the child process of [fanOutContestant.inChild].
func fanOutServer(lib, size string) error {
	var f fanOut
	if err := json.Unmarshal([]byte(size), &f); err != nil {
		return fmt.Errorf("-fanout %q: %w", size, err)
	}
	for _, b := range fanOutContestants {
		if b.lib == lib {
			r, err := b.serve(f)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(r)
		}
	}
	return fmt.Errorf("-fanout-server %s: no such contestant", lib)
}

// serve measures with the server in this process.
func (b fanOutContestant) serve(f fanOut) (r serverReport, err error) {
	open, err := b.open(f.Clients)
	if err != nil {
		return serverReport{}, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return serverReport{}, err
	}
	server := &http.Server{Handler: open.handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		err = errors.Join(err, server.Close())
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		err = errors.Join(err, open.close())
	}()

	address, err := record.ParseAddress("assistant/get_weather#2")
	if err != nil {
		return serverReport{}, err
	}
	s := &stage{open: open, name: f.name() + "-" + b.lib, address: address}
	before := memory()
	readers, err := startReaders("http://"+listener.Addr().String()+open.path, f)
	if err != nil {
		return serverReport{}, err
	}
	defer func() { err = errors.Join(err, readers.close()) }()
	s.readers = readers
	if err := s.warmUp(); err != nil {
		return serverReport{}, err
	}
	time.Sleep(settle)
	r.BytesEach = float64(memory()-before) / float64(f.Clients)
	if err := s.measure(f, &r); err != nil {
		return serverReport{}, err
	}
	return r, nil
}

func (s *stage) measure(f fanOut, r *serverReport) error {
	const atOnce = 0
	warm, err := s.play(f.Flood/4, atOnce, false)
	if r.Missing = warm.Missing; err != nil || r.Missing > 0 {
		return err
	}
	flood, err := s.play(f.Flood, atOnce, false)
	if r.Missing = flood.Missing; err != nil || r.Missing > 0 {
		return err
	}
	paced, err := s.play(f.Paced, f.Rate, true)
	if r.Missing = paced.Missing; err != nil || r.Missing > 0 {
		return err
	}
	n := float64(f.Flood * f.Clients)
	r.Flood, r.FloodCPU = float64(flood.elapsed)/n, float64(flood.cpu)/n
	r.Clients = float64(flood.CPU) / float64(flood.elapsed)
	r.PacedCPU = float64(paced.cpu) / float64(f.Paced*f.Clients)
	r.Latency50, r.Latency99 = paced.Latency50, paced.Latency99
	return nil
}

// A stage publishes records to the readers.
type stage struct {
	name    string
	open    broadcaster
	readers *readers
	address record.Address // address of the records
	seq     uint64
}

// record returns the next record of the run: a call that succeeded on its fourth attempt. Its JSON
// has about 300 bytes.
func (s *stage) record(at time.Time) record.Record {
	s.seq++
	r := record.Record{RunID: runID, Seq: s.seq, Time: at}
	if s.seq == 1 {
		r.Kind, r.Status = record.KindRun, record.StatusStarted
		return r
	}
	r.Address, r.Name, r.Kind, r.Status = s.address, "get_weather", record.KindTool, record.StatusCompleted
	r.Attempt, r.MaxAttempts = 3, 5
	r.Duration, r.Elapsed = 153*time.Millisecond, 2170*time.Millisecond
	return r
}

// warmUp publishes events until every client has received one, because some servers send no
// response before the first event.
func (s *stage) warmUp() error {
	ready := make(chan error, 1)
	go func() { ready <- s.readers.await(nil) }()
	for {
		if err := s.open.publish(s.record(time.Now().UTC())); err != nil {
			return err
		}
		select {
		case err := <-ready:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// A playCost is the cost of publishing events to all clients.
type playCost struct {
	readersReport
	elapsed time.Duration // time until the last client received the last event
	cpu     time.Duration // CPU time of this process
}

// play publishes the given number of records, at the given rate per second or
// as fast as possible. The time of a record is the time at which it was due, so
// that a server that blocks the publisher cannot hide the delay.
func (s *stage) play(events, rate int, timed bool) (p playCost, err error) {
	if err := s.readers.tell(part{Last: s.seq + uint64(events), Timed: timed}); err != nil {
		return p, err
	}
	runtime.GC()
	stop, err := profile(fmt.Sprintf("%s-%d.pprof", s.name, rate))
	if err != nil {
		return p, err
	}
	defer stop()
	cpu, start := cpuTime(), time.Now()
	for i := range events {
		due := start
		if rate > 0 {
			due = start.Add(time.Duration(i) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(due))
		}
		if err := s.open.publish(s.record(due.UTC())); err != nil {
			return p, err
		}
	}
	if err := s.readers.await(&p.readersReport); err != nil {
		return p, err
	}
	p.cpu, p.elapsed = cpuTime()-cpu, time.Unix(0, p.At).Sub(start)
	return p, nil
}

// readers represents the clients' process.
type readers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

func startReaders(url string, f fanOut) (*readers, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-fanout-clients", url, "-fanout", f.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &readers{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, cmd.Start()
}

// tell announces a part, and returns once the readers have received the announcement.
func (r *readers) tell(p part) error {
	if err := r.enc.Encode(p); err != nil {
		return err
	}
	return r.await(nil)
}

// await reads the readers' next report.
func (r *readers) await(h *readersReport) error {
	if h == nil {
		h = new(readersReport)
	}
	if err := r.dec.Decode(h); err != nil {
		return fmt.Errorf("the readers: %w", err)
	}
	return nil
}

func (r *readers) close() error { return errors.Join(r.in.Close(), r.cmd.Wait()) }

// profile writes a CPU profile until stop is called, if a profile was requested.
func profile(name string) (stop func(), err error) {
	if *profiles == "" {
		return func() {}, nil
	}
	f, err := os.Create(filepath.Join(*profiles, name))
	if err != nil {
		return nil, err
	}
	stop = func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}
	return stop, pprof.StartCPUProfile(f)
}
