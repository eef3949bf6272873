package mcp

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
)

// Options configure a [Client]. The zero value is ready to use.
type Options struct {
	// Trust specifies whether the server's hints about its tools are believed, which determines
	// what happens to a lost call. Trust defaults to TrustHints for [Command], since the program
	// itself chooses and starts that server, and to TrustNothing for [HTTP].
	Trust Trust

	// InDoubt specifies what happens to a call that was lost after it was sent and is not safe to
	// repeat. Defaults to core.InDoubtAsk. Use core.InDoubtFail in a service where no person can
	// answer.
	InDoubt core.InDoubtPolicy

	// OnSchema specifies how to handle a tool whose schema cannot be used. Defaults to
	// SchemaLeaveOut.
	OnSchema SchemaChoice

	// Only lists the tools to use, by their names on the server. Nil means all tools.
	Only []string

	// ToolOptions returns additional options for a tool, such as actors.WithApproval for a
	// destructive tool. Nil means no additional options.
	ToolOptions func(ListedTool) []actors.Option

	// CallTimeout limits the duration of each attempt of a call, but not the polling of a task.
	// Defaults to 5 minutes; core.NoTimeout means no limit.
	CallTimeout time.Duration

	// DialTimeout limits how long it may take to start the server and complete the handshake.
	// Defaults to 30 seconds.
	DialTimeout time.Duration

	// MaxResult is the maximum size, in bytes, of a message from the server. The whole result of a
	// call is one message. Defaults to 16 MiB. A larger message makes its call fail and ends the
	// session.
	MaxResult int

	// HTTPClient makes the requests for a client from [HTTP]. Its Timeout must be zero, because a
	// timeout would end streams. If HTTPClient is nil, http.DefaultClient is used.
	HTTPClient *http.Client

	// Headers are set on each request that a client from [HTTP] makes.
	Headers http.Header

	// If ForUsers is set, models also get the parts of results that the server intends only for
	// users.
	ForUsers bool

	// Log receives a message for each tool that is left out because its schema cannot be used. If
	// it is nil, nothing is logged. Such tools are recorded either way.
	Log *slog.Logger
}

// Trust specifies whether a server's hints are believed.
type Trust uint8

// The values of Options.Trust.
const (
	TrustDefault Trust = iota // see Options.Trust
	TrustHints                // believe readOnlyHint, idempotentHint and destructiveHint
	TrustNothing              // treat every tool as if it must not be called twice
)

// A SchemaChoice specifies how to handle a tool whose schema cannot be used; see
// [actors.ParseSchema].
type SchemaChoice uint8

// The values of Options.OnSchema.
const (
	SchemaLeaveOut  SchemaChoice = iota // hide the tool from models
	SchemaUnchecked                     // show the schema to models unchanged, and let the server check arguments
	SchemaFail                          // fail the agent's call
)

const (
	defaultCallTimeout = 5 * time.Minute
	defaultDialTimeout = 30 * time.Second
	defaultMaxResult   = 16 << 20
)

// clientName matches valid client names. They are short enough that models accept a tool name made
// from the client's name and a hash.
var clientName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

// check returns o with defaults filled in. It panics if an option is invalid.
func (o Options) check(name string, trust Trust) Options {
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			panic(fmt.Sprintf("mcp: "+format, args...))
		}
	}
	refuse(!clientName.MatchString(name), "client name is %q; want 1 to 40 letters, digits, underscores and dashes", name)
	refuse(o.Trust > TrustNothing, "%s: Options.Trust is %d; want TrustHints or TrustNothing", name, o.Trust)
	refuse(o.OnSchema > SchemaFail, "%s: Options.OnSchema is %d; want SchemaLeaveOut, SchemaUnchecked or SchemaFail", name, o.OnSchema)
	refuse(o.InDoubt > core.InDoubtAsk, "%s: Options.InDoubt is %d; want core.InDoubtAsk, InDoubtFail or InDoubtRetry", name, o.InDoubt)
	refuse(o.CallTimeout < 0 && o.CallTimeout != core.NoTimeout, "%s: Options.CallTimeout is %v; want more than 0, or core.NoTimeout", name, o.CallTimeout)
	refuse(o.DialTimeout < 0, "%s: Options.DialTimeout is %v; want more than 0", name, o.DialTimeout)
	refuse(o.MaxResult < 0, "%s: Options.MaxResult is %d; want more than 0", name, o.MaxResult)
	o.Trust = cmp.Or(o.Trust, trust)
	o.InDoubt = cmp.Or(o.InDoubt, core.InDoubtAsk)
	o.CallTimeout = cmp.Or(o.CallTimeout, defaultCallTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, defaultDialTimeout)
	o.MaxResult = cmp.Or(o.MaxResult, defaultMaxResult)
	o.Only, o.Headers = slices.Clone(o.Only), o.Headers.Clone()
	return o
}
