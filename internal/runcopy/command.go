package runcopy

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Store is a store on which [Command] can execute commands.
type Store interface {
	snapshot.Store
	// GC removes the artifacts that no run refers to and that are older than grace.
	GC(ctx context.Context, grace time.Duration) (removed int, err error)
}

// Usage lists the commands that [Command] accepts.
const Usage = "runs | copy-from DIR [RUN...] | copy-to DIR [RUN...] | verify [RUN...] | gc [GRACE]"

// Parse parses flags anywhere in a command line, even after the command's name, and returns the
// other arguments. Arguments after "--" are not parsed as flags, nor is a negative number that
// directly follows a non-flag argument.
func Parse(flags *flag.FlagSet, args []string) (words []string, err error) {
	var last []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, last = args[:i], args[i+1:]
	}
	for err = flags.Parse(args); err == nil && flags.NArg() > 0; err = flags.Parse(args) {
		words, args = append(words, flags.Arg(0)), flags.Args()[1:]
		for len(args) > 0 && negative.MatchString(args[0]) {
			words, args = append(words, args[0]), args[1:]
		}
	}
	return append(words, last...), err
}

var negative = regexp.MustCompile(`^-[0-9.]`)

// Command returns a function that executes the command line args on a store. args[0] is the name of
// the command. If args do not match [Usage], the function is nil.
func Command(args []string, out io.Writer) (do func(context.Context, Store) error, err error) {
	switch name, rest := args[0], args[1:]; {
	case name == "runs" && len(rest) == 0:
		return func(ctx context.Context, s Store) error { return List(ctx, s, out) }, nil
	case name == "copy-from" && len(rest) > 0:
		return func(ctx context.Context, s Store) error { return FromDir(ctx, s, rest[0], rest[1:], out) }, nil
	case name == "copy-to" && len(rest) > 0:
		return func(ctx context.Context, s Store) error { return ToDir(ctx, rest[0], s, rest[1:], out) }, nil
	case name == "verify":
		return func(ctx context.Context, s Store) error { return Verify(ctx, s, rest, out) }, nil
	case name == "gc" && len(rest) <= 1:
		grace, err := Grace(rest)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s Store) error {
			removed, err := s.GC(ctx, grace)
			fmt.Fprintf(out, "artifacts removed: %d\n", removed)
			return err
		}, nil
	}
	return nil, nil
}
