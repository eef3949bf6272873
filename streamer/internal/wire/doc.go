// Package wire has the form of an event on the wire: its name and its data. The
// handler of package streamer and the publisher of streamer/r3labs share it.
package wire
