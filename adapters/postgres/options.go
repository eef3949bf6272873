package postgres

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options configure a [Store]. The zero value is ready to use.
type Options struct {
	// Schema is the schema of the tables: several stores may share a database. It has 1 to 40
	// letters, digits, dashes and underscores. Defaults to "reprise".
	Schema string

	// Lease is how long a process keeps its runs without renewing its lease, by the clock of the
	// server. After a process was killed, another continues its runs when the lease has expired. At
	// least a second; defaults to 10 seconds.
	Lease time.Duration

	// Poll is how often the store looks for changes by other processes, in case their notifications
	// do not arrive. Defaults to a second.
	Poll time.Duration

	// Listen makes the connection for notifications, for example one that bypasses a pooler in
	// transaction mode, which does not deliver them. If it is nil, the store connects as the pool
	// does.
	Listen *pgx.ConnConfig

	// Mute makes the store neither send nor receive notifications: processes then see each
	// other's changes only when they poll. It saves a connection.
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
