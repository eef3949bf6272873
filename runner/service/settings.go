package service

import (
	"cmp"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/loopback"
	"github.com/reprise-go/reprise/streamer"
)

// settings holds the values that Main reads from flags and the environment.
type settings struct {
	Options
	store string // the URL of the store; empty if runs are kept in a directory

	logLevel, logFormat string
	cert, key, clients  string // the files for TLS
	tokens              string // the file with the tokens
}

// environment is the prefix of the environment variables that set flags: REPRISE_MAX_QUEUED sets
// -max-queued.
const environment = "REPRISE_"

// parse reads the settings of a program. A flag overrides its environment variable.
func parse(args []string, o Options, lookup func(string) (string, bool), out io.Writer) (s settings, err error) {
	s.Options = o
	flags := flag.NewFlagSet(filepath.Base(args[0]), flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are explained below
	s.define(flags)
	if o.OpenStore != nil {
		flags.StringVar(&s.store, "store", "", "the `URL` of the store where runs are kept, instead of -dir")
	}
	usage := func() {
		flags.SetOutput(out)
		fmt.Fprintf(out, "Usage of %s; an environment variable such as %s sets a flag that is not given:\n", flags.Name(), variable("max-queued"))
		flags.PrintDefaults()
	}
	flags.Usage = func() {}
	if err := fromEnvironment(flags, lookup); err != nil {
		fmt.Fprintln(out, err)
		return s, err
	}
	if err := flags.Parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		usage()
		return s, err
	} else if err != nil {
		err = explainFlag(flags, err)
		fmt.Fprintln(out, err)
		return s, err
	}
	err = s.complete(out)
	if flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q: %s takes no arguments", flags.Arg(0), flags.Name())
	}
	if err != nil {
		fmt.Fprintln(out, err)
	}
	return s, err
}

func (s *settings) define(flags *flag.FlagSet) {
	flags.StringVar(&s.Dir, "dir", cmp.Or(s.Dir, defaultDir), "the `directory` where runs are kept")
	flags.StringVar(&s.Addr, "addr", cmp.Or(s.Addr, "127.0.0.1:8080"), "the `address` where HTTP is served; without -tokens or -client-ca, it must be a loopback address")
	flags.IntVar(&s.Runner.Limit, "limit", cmp.Or(s.Runner.Limit, 100), "how many runs may be open at once")
	flags.DurationVar(&s.Runner.Grace, "grace", s.Runner.Grace, "how long runs may continue after the program was told to stop (default 10s)")
	flags.IntVar(&s.Runner.MaxQueued, "max-queued", s.Runner.MaxQueued, "how many runs may wait for a slot; 0 for no limit")
	flags.IntVar(&s.Runner.MaxQueuedPerPrincipal, "max-queued-per-principal", s.Runner.MaxQueuedPerPrincipal, "how many runs of one principal may wait to begin; 0 for no limit")
	keep := &s.Runner.Retention
	flags.DurationVar(&keep.Age, "retain-age", keep.Age, "how long after its end a run is kept, such as 720h for 30 days; 0 for ever")
	flags.IntVar(&keep.Runs, "retain-runs", keep.Runs, "how many runs that have ended are kept, the latest; 0 for no limit")
	flags.Int64Var(&keep.Bytes, "retain-bytes", keep.Bytes, "the total size of the records of runs that have ended; the latest are kept; 0 for no limit")
	flags.StringVar(&s.tokens, "tokens", "", "the `file` with the tokens that are admitted, one line for each: principal, token, and control or read")
	flags.StringVar(&s.cert, "tls-cert", "", "the `file` with the service's certificate, for HTTPS")
	flags.StringVar(&s.key, "tls-key", "", "the `file` with the certificate's key")
	flags.StringVar(&s.clients, "client-ca", "", "the `file` with the CA certificates that must have issued client certificates; without -tokens, a client's principal is its certificate's common name, and it may control runs")
	flags.StringVar(&s.logLevel, "log-level", "info", "the lowest `level` that is logged: debug, info, warn or error")
	flags.StringVar(&s.logFormat, "log-format", "text", "the `format` of the log: text or json")
}

func variable(flagName string) string {
	return environment + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// fromEnvironment sets the flags whose environment variables are set.
func fromEnvironment(flags *flag.FlagSet, lookup func(string) (string, bool)) (err error) {
	flags.VisitAll(func(f *flag.Flag) {
		value, isSet := lookup(variable(f.Name))
		if !isSet || err != nil {
			return
		}
		if wrong := f.Value.Set(value); wrong != nil {
			err = fmt.Errorf("invalid value %q for %s: %s", value, variable(f.Name), explainValue(f, wrong.Error()))
		}
	})
	return err
}

// explainFlag adds to an error from flags.Parse what value the flag expects, or how to list the
// flags.
func explainFlag(flags *flag.FlagSet, err error) error {
	text := err.Error() + "; -h lists the flags"
	flags.VisitAll(func(f *flag.Flag) {
		if before, why, found := strings.Cut(err.Error(), " for flag -"+f.Name+": "); found {
			text = before + " for flag -" + f.Name + ": " + explainValue(f, why)
		}
	})
	return errors.New(text)
}

// explainValue says what value a flag expects, for errors in which package flag only says that the
// value cannot be parsed.
func explainValue(f *flag.Flag, why string) string {
	getter, ok := f.Value.(flag.Getter)
	if !ok || why != "parse error" {
		return why
	}
	switch getter.Get().(type) {
	case time.Duration:
		return "want a duration, such as 5s or 720h"
	case int, int64:
		return "want a whole number"
	}
	return why
}

// complete sets the options that are derived from flags.
func (s *settings) complete(out io.Writer) (err error) {
	if s.Log, err = newLog(out, s.logLevel, s.logFormat); err != nil {
		return err
	}
	if config, err := newTLS(s.cert, s.key, s.clients); err != nil {
		return err
	} else if config != nil {
		s.TLS = config
	}
	switch {
	case s.tokens != "":
		s.Streamer.Authorize, err = Tokens(s.tokens)
	case s.clients != "":
		s.Streamer.Authorize = certificateScope
	}
	if err != nil {
		return err
	}
	if host, _, wrong := net.SplitHostPort(s.Addr); wrong == nil && s.Streamer.Authorize == nil && !loopback.Is(host) {
		return fmt.Errorf("-addr is %q; want a loopback address, such as 127.0.0.1:8080, or -tokens or -client-ca, so that clients on other machines are authenticated", s.Addr)
	}
	return nil
}

func newLog(out io.Writer, level, format string) (*slog.Logger, error) {
	var o slog.HandlerOptions
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("-log-level is %q; want debug, info, warn or error", level)
	}
	o.Level = l
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(out, &o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, &o)), nil
	}
	return nil, fmt.Errorf("-log-format is %q; want text or json", format)
}

// newTLS returns the TLS configuration for the given files, or nil if none are given.
func newTLS(cert, key, clients string) (*tls.Config, error) {
	switch {
	case cert == "" && key == "" && clients == "":
		return nil, nil
	case cert == "" || key == "":
		return nil, errors.New("-tls-cert and -tls-key must be given together, and -client-ca needs both")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("-tls-cert and -tls-key: %w", err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if clients != "" {
		if config.ClientCAs, err = readPool(clients); err != nil {
			return nil, fmt.Errorf("-client-ca: %w", err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// certificateScope admits a client by its certificate, which TLS has already verified.
func certificateScope(req *http.Request) (streamer.Access, error) {
	if req.TLS == nil || len(req.TLS.VerifiedChains) == 0 {
		return streamer.Access{}, streamer.ErrUnauthenticated
	}
	name := req.TLS.VerifiedChains[0][0].Subject.CommonName
	if name == "" {
		return streamer.Access{}, errors.New("the certificate has no common name")
	}
	return streamer.Access{Principal: name, Control: true}, nil
}
