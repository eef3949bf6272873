// Package ports finds loopback ports for test servers that must know their port
// before they listen, or must listen on the same port again after a restart.
package ports
