// Package wire defines the name and the data of an event on the wire. The
// handler of package streamer and the publisher of streamer/r3labs share it.
package wire
