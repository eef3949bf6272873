package jetstream

import (
	"fmt"
	"slices"
	"strings"
)

// A Role is a kind of process that uses a store.
type Role string

// The roles. Each role has all permissions of the roles before it.
const (
	RoleDashboard Role = "dashboard" // lists and reads runs, and follows them
	RoleClient    Role = "client"    // starts runs, answers and cancels them
	RoleWorker    Role = "worker"    // takes runs from the queue and executes them; removes runs
	RoleAdmin     Role = "admin"     // creates the streams, and removes artifacts
)

var roles = []Role{RoleDashboard, RoleClient, RoleWorker, RoleAdmin}

// Permissions returns exactly the subjects to which a user with the given role must be allowed to
// publish and to subscribe. They depend on o.Name, o.Domain and o.APIPrefix. The returned inboxes
// begin with _INBOX; for a connection with nats.CustomInboxPrefix, replace this prefix.
func Permissions(o Options, role Role) (publish, subscribe []string, err error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	level := slices.Index(roles, role)
	if level < 0 {
		return nil, nil, fmt.Errorf("jetstream: no role %q; want one of %q", role, roles)
	}
	n := names{o.Name}
	requests := [][]string{
		{ // dashboard
			"INFO", "STREAM.INFO." + n.records(), "STREAM.INFO." + n.index(), "STREAM.INFO." + n.queue(), "STREAM.INFO." + n.bucket(),
			"STREAM.MSG.GET." + n.records(), "STREAM.MSG.GET." + n.index(), "STREAM.MSG.GET." + n.bucket(),
			"DIRECT.GET." + n.records(), "DIRECT.GET." + n.index(), "DIRECT.GET." + n.bucket(),
			"CONSUMER.CREATE." + n.records() + ".>", "CONSUMER.MSG.NEXT." + n.records() + ".*", "CONSUMER.DELETE." + n.records() + ".*",
			"CONSUMER.CREATE." + n.index() + ".>", "CONSUMER.MSG.NEXT." + n.index() + ".*", "CONSUMER.DELETE." + n.index() + ".*",
		},
		{ // client
			"STREAM.MSG.GET." + n.queue(), "CONSUMER.LIST." + n.queue(), "STREAM.MSG.DELETE." + n.index(), "STREAM.PURGE." + n.queue(),
		},
		{ // worker
			"STREAM.PURGE." + n.records(), "STREAM.PURGE." + n.index(),
			"CONSUMER.CREATE." + n.queue() + ".>", "CONSUMER.MSG.NEXT." + n.queue() + ".*",
		},
		{ // admin
			"STREAM.CREATE.*", "STREAM.NAMES", "STREAM.PURGE." + n.bucket(),
		},
	}
	subjects := [][]string{
		{},
		{
			n.all("r"), n.all("f"), n.all("m"), n.all("p"), n.all("s"), "rpi." + n.store + ".>", "rq." + n.store + ".>",
			"$O." + n.artifacts() + ".>",
		},
		{"$JS.ACK." + n.queue() + ".>"},
		{},
	}
	for i := range level + 1 {
		for _, request := range requests[i] {
			publish = append(publish, o.api()+request)
		}
		publish = append(publish, subjects[i]...)
	}
	return publish, []string{"_INBOX.>"}, nil
}

// PermissionsConfig returns a role's permissions in the syntax of a server's configuration file.
func PermissionsConfig(o Options, role Role) (string, error) {
	publish, subscribe, err := Permissions(o, role)
	if err != nil {
		return "", err
	}
	list := func(subjects []string) string { return "\"" + strings.Join(subjects, "\"\n      \"") + "\"" }
	return fmt.Sprintf("permissions: {\n  publish: {\n    allow: [\n      %s\n    ]\n  }\n  subscribe: {\n    allow: [\n      %s\n    ]\n  }\n}\n",
		list(publish), list(subscribe)), nil
}
