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

// Options configure a [Client]. The zero Options work.
type Options struct {
	// Trust says whether the hints of the server decide what happens to a call that was
	// lost. Defaults to TrustHints for a [Command], which the program itself has chosen and
	// starts, and to TrustNothing for [HTTP].
	Trust Trust

	// InDoubt is what happens to a call that was lost after it was sent, and must not
	// simply be made again. Defaults to core.InDoubtAsk; core.InDoubtFail is for services
	// where nobody can answer.
	InDoubt core.InDoubtPolicy

	// OnSchema is what happens to a tool whose schema cannot be used. Defaults to SchemaLeaveOut.
	OnSchema SchemaChoice

	// Only are the names of the tools to take, as the server has them. Nil for all.
	Only []string

	// ToolOptions returns further options of a tool, such as actors.WithApproval for those
	// that are destructive. Nil for none.
	ToolOptions func(Listed) []actors.Option

	// CallTimeout bounds each attempt of a call; the polling of a task is not bounded.
	// Defaults to 5 minutes; core.NoTimeout is none.
	CallTimeout time.Duration

	// DialTimeout bounds the start of the server and the handshake. Defaults to 30 seconds.
	DialTimeout time.Duration

	// MaxResult is the size in bytes of the largest message that the server may send: the
	// result of a call with all that is in it. Defaults to 16 MiB. A larger one fails its
	// call, and ends the session.
	MaxResult int

	// HTTPClient makes the requests of [HTTP]. Its Timeout must be zero: it would end streams.
	// Nil for http.DefaultClient.
	HTTPClient *http.Client

	// Headers are set in each request of [HTTP].
	Headers http.Header

	// ForUsers also takes the parts of results that the server has made for users alone.
	ForUsers bool

	// Log gets what is left out: tools whose schema cannot be used. Nil for nowhere. They are
	// on record in any case.
	Log *slog.Logger
}

// Trust says what the hints of a server decide.
type Trust uint8

// The choices.
const (
	TrustDefault Trust = iota // see Options.Trust
	TrustHints                // readOnlyHint, idempotentHint and destructiveHint are believed
	TrustNothing              // every tool may change something that must not be changed twice
)

// SchemaChoice says what happens to a tool whose schema cannot be used, see [actors.ParseSchema].
type SchemaChoice uint8

// The choices.
const (
	SchemaLeaveOut  SchemaChoice = iota // models do not see the tool
	SchemaUnchecked                     // models see the schema as it is, and the server checks arguments
	SchemaFail                          // the call of the agent fails
)

const (
	defaultCallTimeout = 5 * time.Minute
	defaultDialTimeout = 30 * time.Second
	defaultMaxResult   = 16 << 20
)

// clientName matches the names of clients: with an underscore and a hash behind it, a name
// of a tool fits what models take.
var clientName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

// check returns o with its defaults. It panics for what is an error of the program.
func (o Options) check(name string, trust Trust) Options {
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			panic(fmt.Sprintf("mcp: "+format, args...))
		}
	}
	refuse(!clientName.MatchString(name), "the name of a client is %q; want 1 to 40 letters, digits, underscores and dashes", name)
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
