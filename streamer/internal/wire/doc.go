// Package wire defines the names and the data of the events that clients receive. The handler in
// package streamer and the publisher in streamer/r3labs share it.
package wire
