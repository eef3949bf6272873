// Package serverclock tells the time of a server without asking it each time. Between
// two answers of the server it counts with the monotonic clock of this process, so that
// setting the clock of the machine changes nothing.
package serverclock
