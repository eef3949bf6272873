package jetstream

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Options configure a [Store]. The zero value is ready to use. All processes that open a store must
// use the same Name and Lease.
type Options struct {
	// Name is the name of the store; several stores may share a server. The name consists of 1 to 32
	// letters, digits, dashes and underscores. Defaults to "reprise".
	Name string

	// Domain is the JetStream domain of the servers that keep the store. It is needed if the process
	// connects to another server that is linked to those servers, such as a leaf node. Defaults to
	// the domain of the server to which the process connects.
	Domain string

	// APIPrefix replaces "$JS.API" as the subject prefix for requests to JetStream. It is needed if
	// the connection's account imports JetStream from another account under that prefix. The account
	// must also import the store's subjects and $JS.ACK.> as services. Domain and APIPrefix must not
	// both be set.
	APIPrefix string

	// Replicas is the number of servers in a cluster that keep each message. It is used only when
	// the store is created. Defaults to 1; with 3, the store survives the loss of one server.
	Replicas int

	// MaxBytes limits the total size of the records of all runs on a server. When the limit is
	// reached, nothing can be stored: calls fail with snapshot.ErrUnavailable, runs are
	// interrupted, and runs cannot even be deleted. Everything continues when the stream's limit is
	// raised. MaxBytes is used only when the store is created. Zero means no limit other than the
	// server's.
	MaxBytes int64

	// Lease is how long a process keeps its runs without renewing its lease. If a process is
	// killed, another process continues its runs when the lease has expired. A process that cannot
	// renew its lease stops writing when three quarters of the lease have passed. Lease must be at
	// least a second; it defaults to 10 seconds.
	Lease time.Duration
}

const minLease = time.Second

func (o Options) withDefaults() Options {
	o.Name = cmp.Or(o.Name, "reprise")
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	return o
}

func (o Options) check() error {
	switch {
	case !isName(o.Name):
		return fmt.Errorf("jetstream: Name is %q; want 1 to 32 letters, digits, dashes and underscores", o.Name)
	case o.Domain != "" && o.APIPrefix != "":
		return fmt.Errorf("jetstream: Domain is %q and APIPrefix is %q; want only one of them", o.Domain, o.APIPrefix)
	case strings.ContainsAny(o.Domain, " \t\r\n.*>"):
		return fmt.Errorf("jetstream: Domain is %q; want a name without dots, blanks and wildcards", o.Domain)
	case strings.ContainsAny(o.APIPrefix, " \t\r\n*>") || strings.HasPrefix(o.APIPrefix, ".") || strings.HasSuffix(o.APIPrefix, ".") || strings.Contains(o.APIPrefix, ".."):
		return fmt.Errorf("jetstream: APIPrefix is %q; want a subject without blanks and wildcards, such as \"JS.other.API\"", o.APIPrefix)
	case o.Replicas < 1 || o.Replicas > 5:
		return fmt.Errorf("jetstream: Replicas is %d; want 1 to 5", o.Replicas)
	case o.MaxBytes < 0:
		return fmt.Errorf("jetstream: MaxBytes is %d; want 0 or more", o.MaxBytes)
	case o.Lease < minLease:
		return fmt.Errorf("jetstream: Lease is %v; want %v or more", o.Lease, minLease)
	}
	return nil
}

// api returns the subject prefix for requests to the server.
func (o *Options) api() string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return o.APIPrefix + "."
	}
	return "$JS.API."
}

func isName(name string) bool {
	return name != "" && len(name) <= 32 && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// renewEvery is how often a process renews its lease.
func (o *Options) renewEvery() time.Duration { return o.Lease / 4 }

// trustedFor is how long a process relies on a lease, counted from just before it sent the renewal.
// The rest of the lease allows for clocks that run at different speeds.
func (o *Options) trustedFor() time.Duration { return o.Lease * 3 / 4 }

// answerTimeout is how long a process waits for the answer to a message before it sends the message
// again. Sending a message twice does no harm.
func (o *Options) answerTimeout() time.Duration { return max(o.Lease/8, 200*time.Millisecond) }
