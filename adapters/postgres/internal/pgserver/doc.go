// Package pgserver starts servers for tests and examples, using an installed PostgreSQL. It does
// not remove the servers' directories. The servers accept connections only from the local machine,
// without authentication.
package pgserver
