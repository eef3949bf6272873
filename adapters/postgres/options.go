package postgres

import (
	"cmp"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options configure a [Store]. The zero Options work.
type Options struct {
	// Schema is where the tables are: several stores may share a database. It has 1 to 40
	// letters, digits, dashes and underscores. Defaults to "reprise".
	Schema string

	// Lease is how long a process keeps its runs without a sign of life, by the clock of
	// the server. After a process was killed, another continues its runs when the lease is
	// over. At least a second; defaults to 10 seconds.
	Lease time.Duration

	// Poll is how often is looked for what other processes have done, in case their
	// notifications do not arrive. Defaults to a second.
	Poll time.Duration

	// Listen is how to connect for notifications, such as past a pooler in transaction mode,
	// which does not deliver them. Nil connects as the pool does.
	Listen *pgx.ConnConfig

	// Mute neither sends notifications nor listens: other processes see what this one does
	// when they poll. It saves a connection.
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
