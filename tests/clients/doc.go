// Package clients tests the event stream of package streamer with widely used clients and with the
// client of Reprise, over connections that are cut at random positions. It is a separate module, so
// that r3labs/sse is the only client among the dependencies of Reprise. To test the clients from
// npm, run npm ci in this directory first.
package clients
