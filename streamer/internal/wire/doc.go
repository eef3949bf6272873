// Package wire defines the names and the data of events on the wire. The
// handler in package streamer and the publisher in streamer/r3labs share it.
package wire
