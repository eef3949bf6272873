package jetstream

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

// If a sender is not allowed to publish a message, the server does not answer it, and the sender
// would wait forever. The server reports the violation separately, as an error on the connection. A
// connection keeps only its last error.

// violation matches the text of the error that reports a permission violation.
var violation = regexp.MustCompile(`(?i)Permissions Violation for (Publish|Subscription) to "([^"]+)"`)

// deniedSince returns a function that reports what has been denied since the call to deniedSince.
// The function returns an error if the server has reported that the connection is not allowed to
// publish to a subject with the given prefix, or to receive answers.
func deniedSince(conn *nats.Conn) func(subject string) error {
	before := conn.LastError()
	return func(subject string) error {
		err := conn.LastError()
		if err == before || !errors.Is(err, nats.ErrPermissionViolation) { //nolint:errorlint // compares the error itself, not its kind
			return nil
		}
		found := violation.FindStringSubmatch(err.Error())
		switch {
		case found == nil:
			return nil
		case found[1] == "Subscription" && strings.HasPrefix(found[2], inboxPrefix(conn)):
			return denied("subscribe to", found[2])
		case found[1] == "Publish" && strings.HasPrefix(found[2], subject):
			return denied("publish to", found[2])
		}
		return nil
	}
}

// inboxPrefix returns the prefix of a connection's inboxes.
func inboxPrefix(conn *nats.Conn) string {
	inbox := conn.NewInbox()
	return inbox[:strings.LastIndexByte(inbox, '.')+1]
}

func denied(what, subject string) error {
	return fmt.Errorf("jetstream: %w: the user of this connection may not %s %q; `reprise-jetstream permissions` prints what a worker, a dashboard and a client need",
		nats.ErrPermissionViolation, what, subject)
}
