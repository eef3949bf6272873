// Package pgserver starts servers of an installed PostgreSQL, for tests and examples. Their
// directories survive them; connections are not authenticated, from this machine alone.
package pgserver
