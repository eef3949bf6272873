// Package pgserver starts servers of an installed PostgreSQL, for tests and examples. Their
// directories remain. Connections are accepted only from this machine, without
// authentication.
package pgserver
