package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A process is a server that runs as a command. It replaces the SDK's transport, which cannot
// limit the size of messages and does not report how the process ended.
type process struct {
	cmd      *exec.Cmd
	stderr   *tail
	maxBytes int

	stdin  io.WriteCloser
	read   chan struct{} // closed when the standard output has ended
	exited chan struct{} // closed when the process has exited
	err    error         // how the process exited
	stop   sync.Once
}

// exitGrace is how long a process may take to exit after its standard input was closed.
const exitGrace = 2 * time.Second

// newProcess returns a process that Connect starts from the template.
func newProcess(template *exec.Cmd, maxBytes int) *process {
	p := &process{stderr: new(tail), maxBytes: maxBytes, read: make(chan struct{}), exited: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path: template.Path, Args: template.Args, Env: template.Env, Dir: template.Dir,
		SysProcAttr: template.SysProcAttr, Err: template.Err, Stderr: p.stderr,
	}
	if template.Stderr != nil {
		p.cmd.Stderr = io.MultiWriter(template.Stderr, p.stderr)
	}
	p.cmd.WaitDelay = exitGrace // in case a child process keeps the standard error open
	return p
}

// Connect implements sdk.Transport. It starts the process.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	out := &signallingReader{Reader: stdout, end: sync.OnceFunc(func() { close(p.read) })}
	go func() { // Wait closes stdout, so stdout must be read to its end first
		defer close(p.exited)
		<-p.read
		p.err = p.cmd.Wait()
	}()
	io := &sdk.IOTransport{Reader: out, Writer: &stopper{p, out}, MaxLineLength: p.maxBytes}
	connection, err := io.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &processConnection{Connection: connection, writing: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// A processConnection is a connection whose writes end when their contexts end, even if the process
// does not read. The SDK's writes would not end.
type processConnection struct {
	sdk.Connection
	writing chan struct{} // holds one value while a message is being written
	closed  chan struct{} // closed when Close begins
	close   sync.Once
	err     error // of Close
}

var (
	// errUnread means that a write's context ended before the process had read the message.
	errUnread = errors.New("the server does not read its standard input")

	// errUnwritten means that no part of a message was written.
	errUnwritten = errors.New("not written")
)

// Write implements sdk.Connection. If ctx ends before the message is written, Write returns an
// error that wraps errUnread. If part of the message has been written, the rest is still written if
// the process continues to read, so that no other message follows a partial one.
func (c *processConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errUnwritten, context.Cause(ctx))
	}
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", errUnwritten, errUnread, context.Cause(ctx))
	case <-c.closed:
		return fmt.Errorf("%w: %w", errUnwritten, os.ErrClosed)
	}
	written := make(chan error, 1)
	go func() { // Close waits for it
		defer func() { <-c.writing }()
		written <- c.Connection.Write(context.WithoutCancel(ctx), m)
	}()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnread, context.Cause(ctx))
	}
}

// Close implements sdk.Connection. It ends the process and waits for the last write, which then
// fails.
func (c *processConnection) Close() error {
	c.close.Do(func() {
		close(c.closed)
		c.err = c.Connection.Close()
		c.writing <- struct{}{}
	})
	return c.err
}

// A signallingReader is a reader that signals when its source returns an error.
type signallingReader struct {
	io.Reader
	end func()
}

// Read implements io.Reader.
func (d *signallingReader) Read(b []byte) (int, error) {
	n, err := d.Reader.Read(b)
	if err != nil {
		d.end()
	}
	return n, err
}

// Close implements io.Closer.
func (d *signallingReader) Close() error { return nil }

// A stopper writes to a process. Closing the stopper ends the process.
type stopper struct {
	p   *process
	out *signallingReader
}

// Write implements io.Writer.
func (s *stopper) Write(b []byte) (int, error) { return s.p.stdin.Write(b) }

// Close ends the process. It closes the process's standard input, and kills the process if it has
// not exited within exitGrace.
func (s *stopper) Close() error {
	s.p.stop.Do(func() {
		_ = s.p.stdin.Close() // the process may already have exited
		s.out.end()
		timer := time.NewTimer(exitGrace)
		defer timer.Stop()
		select {
		case <-s.p.exited:
		case <-timer.C:
			_ = s.p.cmd.Process.Kill() // the process may have just exited
			<-s.p.exited
		}
	})
	return nil
}

// ending describes how the process ended, and includes the last lines of its standard error. It
// returns an empty string while the process is running. If the standard output has ended, ending
// waits up to exitGrace for the process to exit.
func (p *process) ending() string {
	wait := 100 * time.Millisecond // a write may fail slightly before the standard output ends
	select {
	case <-p.read:
		wait = exitGrace
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		return ""
	}
	text := "the server ended: "
	var exit *exec.ExitError
	switch {
	case p.err == nil:
		text += "exit status 0"
	case errors.As(p.err, &exit):
		text += exit.Error()
	default:
		text += p.err.Error()
	}
	if last := p.stderr.text(); last != "" {
		text += ": " + last
	}
	return text
}

// A tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// tailSize is how many bytes of a server's standard error are kept.
const tailSize = 1000

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if extra := len(t.last) - tailSize; extra > 0 {
		t.last = append(t.last[:0], t.last[extra:]...)
	}
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.last)), "")
}
