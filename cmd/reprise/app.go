package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// An environment holds what the command receives from its process.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time
	username       func() string // name of the operating system's user; empty if it is unknown
	terminal       bool          // stdin is a terminal
}

// An app is one execution of the command.
type app struct {
	*environment
	out *bufio.Writer // stdout
	dir string
	// command is the beginning of a reprise command line that uses the same directory. It is used
	// in hints.
	command string
	// json selects JSON output, for errors too.
	json bool
	// parsed is true once the arguments have been found to be valid. Later errors are not usage
	// errors.
	parsed bool
	// opened holds the stores that the command has opened.
	opened []*filestore.Store
	// unreadable holds the IDs of the listed runs that are damaged or of a newer version.
	unreadable sync.Map
}

// run executes the command with the given arguments and returns its exit code.
func run(ctx context.Context, env *environment, args []string) int {
	a := &app{environment: env, out: bufio.NewWriter(env.stdout), command: "reprise"}
	root := a.root()
	if args == nil {
		args = []string{} // if the arguments are nil, cobra uses those of the process
	}
	root.SetArgs(args)
	root.SetIn(env.stdin)
	root.SetOut(a.out)
	root.SetErr(env.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.parsed {
		err = oneDash(cmd, args, err)
	}
	if !a.parsed { // if the command is unknown, cobra parses no flags
		flags := args
		if end := slices.Index(args, "--"); end >= 0 {
			flags = args[:end]
		}
		a.json = a.json || slices.Contains(flags, "--json")
	}
	for _, s := range a.opened {
		err = errors.Join(err, s.Close())
	}
	if flushed := a.out.Flush(); flushed != nil {
		err = &outputError{flushed}
	}
	return a.report(ctx, err)
}

const defaultDir = "./reprise-data"

func (a *app) root() *cobra.Command {
	dir := a.getenv("REPRISE_DIR")
	if dir == "" {
		dir = defaultDir
	}
	root := &cobra.Command{
		Use:   "reprise",
		Short: "Inspect and change stored runs",
		Long: "Reprise works on the runs that a program stored with filestore.New: it lists, shows,\n" +
			"compares, interrupts, cancels, forks, exports, imports, verifies, repairs and deletes\n" +
			"them, and answers their questions.",
		Example: "  reprise runs --status failed --since 24h\n" +
			"  reprise show weather-42\n" +
			"  reprise --dir /var/lib/agents verify",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateFlagGroups(); err != nil { // cobra itself checks this only later
				return err
			}
			a.parsed = true
			if cmd.Flags().Changed("dir") {
				a.command += " --dir " + shellWord(a.dir)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%s; see %s --help", flagMessage(err), cmd.CommandPath())
	})
	root.SetVersionTemplate("reprise {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.StringVar(&a.dir, "dir", dir, "the `directory` of the runs; REPRISE_DIR sets the default")
	flags.BoolVar(&a.json, "json", false, "write JSON, including errors")
	_ = root.MarkPersistentFlagDirname("dir") // fails only for an unknown flag
	root.AddGroup(
		&cobra.Group{ID: groupInspect, Title: "Inspect runs:"},
		&cobra.Group{ID: groupWork, Title: "Work on runs:"},
		&cobra.Group{ID: groupMaintain, Title: "Maintain the store:"},
	)
	root.AddCommand(
		a.runsCommand(), a.showCommand(), a.diffCommand(), a.exportCommand(), a.questionsCommand(), a.serveCommand(), a.watchCommand(),
		a.runnerCommand(),
		a.answerCommand(), a.signalCommand(), a.interruptCommand(), a.resumeCommand(), a.retryCommand(), a.cancelCommand(), a.forkCommand(), a.importCommand(),
		a.verifyCommand(), a.repairCommand(), a.gcCommand(), a.deleteCommand(), a.configCommand(),
	)
	root.SetHelpCommand(helpCommand())
	return root
}

// Command groups in the help text.
const (
	groupInspect  = "inspect"
	groupWork     = "work"
	groupMaintain = "maintain"
)

// helpCommand replaces cobra's help command with one that fails for an unknown command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Show help for a command",
		Example: "  reprise help runs",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageErrorf("there is no command %q; see reprise help", printable(args[0]))
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range cmd.Root().Commands() {
				if c.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// oneDash replaces err if the arguments contain a single-dash flag such as -dir, which cobra parses
// as the shorthands d, i and r. Users may write one dash because Go programs, such as a service,
// accept it. For -help, oneDash prints the command's help.
func oneDash(cmd *cobra.Command, args []string, err error) error {
	for _, arg := range args {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		switch {
		case arg == "-help":
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		case strings.HasPrefix(arg, "-") && len(name) > 1 && hasFlag(cmd, name):
			return usageErrorf("-%s has one dash: want --%s; see %s --help", name, name, cmd.CommandPath())
		}
	}
	return err
}

// hasFlag reports whether cmd has the flag. If cmd is the root command, any command's flag counts,
// because an unknown flag before the command hides which command was meant.
func hasFlag(cmd *cobra.Command, name string) bool {
	isOf := func(c *cobra.Command) bool { return c.Flag(name) != nil }
	return isOf(cmd) || !cmd.HasParent() && slices.ContainsFunc(cmd.Commands(), isOf)
}

// exactArgs requires exactly one argument for each name. The error names the first missing
// argument.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageErrorf("%s is missing: usage is %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return usageErrorf("%q is one argument too many: usage is %s", printable(args[len(names)]), cmd.UseLine())
		}
		return nil
	}
}

// printf writes text to stdout. Write errors are reported when stdout is flushed.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }
