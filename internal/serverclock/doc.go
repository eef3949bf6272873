// Package serverclock provides the time of a server without asking the server each
// time. Between two answers of the server it uses the monotonic clock of this process,
// so setting the clock of the machine has no effect.
package serverclock
