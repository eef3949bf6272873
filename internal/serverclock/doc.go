// Package serverclock provides a server's time without asking the server each time. Between two
// answers, it uses this process's monotonic clock, so setting the machine's clock has no effect.
package serverclock
