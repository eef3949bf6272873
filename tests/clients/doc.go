// Package clients tests the event stream of package streamer with the clients
// that people have, ours among them, over connections that are cut anywhere. It
// is a module of its own so that no client but r3labs/sse is a dependency of
// Reprise; those from npm need npm ci in this directory.
package clients
