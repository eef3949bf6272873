// Package jstest starts real NATS servers with JetStream inside a test's process. The servers listen
// on loopback and keep their files in a temporary directory.
package jstest
