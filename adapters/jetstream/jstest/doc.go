// Package jstest starts real NATS servers with JetStream in the process of a
// test, on loopback, with their files in a temporary directory.
package jstest
