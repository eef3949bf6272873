// The command reprise-mcp serves a program to an MCP client, such as an editor, over its standard
// input and output:
//
//	reprise-mcp PROGRAM [ARGUMENT...]
//	reprise-mcp URL
//
// PROGRAM is a program whose main function calls mcp.Main. It is started with the flag -mcp. Its
// unfinished runs continue when it is started again. With a URL, such as
// http://127.0.0.1:8080/programs/mcp, the client uses a service that is already running.
//
// This command is separate from reprise so that reprise does not link the MCP SDK.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/reprise-go/reprise/adapters/mcp"
)

func main() { os.Exit(run(os.Args[1:])) }

const usage = `usage: reprise-mcp PROGRAM [ARGUMENT...]
       reprise-mcp URL

Serves a program whose main function is mcp.Main, or a running service, to an MCP
client over standard input and output.
`

// run returns the exit status.
func run(args []string) int {
	switch {
	case len(args) == 1 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]):
		fmt.Print(usage)
		return 0
	case len(args) == 0 || strings.HasPrefix(args[0], "-"):
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://") {
		if len(args) > 1 {
			fmt.Fprintf(os.Stderr, "reprise-mcp: unexpected argument %q after the URL\n", args[1])
			return 2
		}
		err = mcp.Relay(ctx, os.Stdin, os.Stdout, args[0], mcp.Options{})
	} else {
		err = start(ctx, args[0], append(args[1:], "-mcp"))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reprise-mcp:", err)
		return 1
	}
	return 0
}

// start starts a program and asks it to end when ctx ends.
func start(ctx context.Context, program string, args []string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}
