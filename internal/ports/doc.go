// Package ports finds ports on loopback for the servers of tests that know their
// port before they listen, or listen to the same one again after a restart.
package ports
