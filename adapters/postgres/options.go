package postgres

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options configure a [Store]. The zero value is ready to use.
type Options struct {
	// Schema is the schema that contains the store's tables; several stores may share a database. The
	// name consists of 1 to 40 letters, digits, dashes and underscores. Defaults to "reprise".
	Schema string

	// Lease is how long a process keeps its runs without renewing its lease, by the server's clock.
	// After a process has been killed, other processes continue its runs once the lease has
	// expired. Lease must be at least a second; it defaults to 10 seconds.
	Lease time.Duration

	// Poll is the interval at which the store looks for changes made by other processes, in case
	// their notifications do not arrive. Defaults to a second.
	Poll time.Duration

	// Listen configures the connection that receives notifications. Use it, for example, to bypass a
	// pooler in transaction mode, which does not deliver notifications. If it is nil, the store
	// connects as the pool does.
	Listen *pgx.ConnConfig

	// If Mute is set, the store neither sends nor receives notifications. Processes then see each
	// other's changes only when they poll. This saves a connection.
	Mute bool
}

const minLease = time.Second

func (o Options) withDefaults() Options {
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.Poll = cmp.Or(o.Poll, time.Second)
	return o
}

func (o *Options) check() error {
	switch {
	case o.Lease < minLease:
		return fmt.Errorf("postgres: Lease is %v; want %v or more", o.Lease, minLease)
	case o.Poll < 0:
		return fmt.Errorf("postgres: Poll is %v; want more than 0", o.Poll)
	}
	return nil
}
