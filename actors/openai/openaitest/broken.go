package openaitest

import (
	"net"
	"net/http"
	"strconv"
	"syscall"
)

// Reset returns a step that resets the connection (RST) instead of answering. The
// client sees "connection reset by peer".
func Reset() Step { return Step{player: breakage{"connection reset", (*exchange).reset}} }

// HangUp returns a step that closes the connection instead of answering. The
// client sees EOF.
func HangUp() Step { return Step{player: breakage{"hang-up", (*exchange).hangUp}} }

// Stall returns a step that never answers: it waits until the client disconnects or the server is
// closed. To find out when the request arrives, return the step from a Respond function.
func Stall() Step { return Step{player: breakage{"stall", (*exchange).stall}} }

// A breakage is a player that breaks the connection or never answers.
type breakage struct {
	name string
	do   func(*exchange)
}

func (b breakage) play(x *exchange) { b.do(x) }
func (b breakage) String() string   { return b.name }

func (x *exchange) reset() {
	if w, ok := x.w.(*localWriter); ok {
		w.fail(&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET})
		x.hangUp()
	}
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		x.hangUp() // The connection is already closed.
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Close then sends RST, not FIN.
	}
	_ = conn.Close()
}

// hangUp does not return: its panic makes net/http close the connection without a reply.
func (x *exchange) hangUp() { panic(http.ErrAbortHandler) }

func (x *exchange) stall() { hold[struct{}](x, nil) }

func (x *exchange) truncate() {
	text := "Only half of this reply is sent to the client."
	body := reply{text: &text}.body(x)
	x.header(strconv.Itoa(len(body)))
	x.w.WriteHeader(http.StatusOK)
	// net/http closes the connection if less is written than was announced.
	_, _ = x.w.Write(body[:len(body)/2])
}
