package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) runnerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "runner PROGRAM [FLAG]...",
		GroupID: groupWork,
		Short:   "Serve the agents of a program: start, resume and answer runs over HTTP",
		Long: "Run a program whose main function calls service.Main with its agents, on the runs of\n" +
			"this directory, until Ctrl-C:\n\n" +
			"  func main() {\n" +
			"  \tservice.Main(func(r *runner.Runner) error {\n" +
			"  \t\trunner.Register(r, support)\n" +
			"  \t\treturn nil\n" +
			"  \t})\n" +
			"  }\n\n" +
			"PROGRAM is a binary, or the directory of a main package, which is built first. The flags\n" +
			"after it are passed to service.Main; `reprise runner PROGRAM -h` lists them.",
		Example: "  reprise runner ./cmd/agents\n" +
			"  reprise --dir /var/lib/agents runner ./agents -addr 127.0.0.1:9090 -limit 20",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageErrorf("PROGRAM is missing: usage is %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.runner(cmd.Context(), args[0], args[1:])
		},
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().SetInterspersed(false) // flags after PROGRAM belong to the program
	return cmd
}

func (a *app) runner(ctx context.Context, program string, args []string) error {
	binary := program
	if stat, err := os.Stat(program); err == nil && stat.IsDir() {
		dir, err := os.MkdirTemp("", "reprise-runner-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // leftovers are in the directory for temporary files
		if !a.json {
			fmt.Fprintf(a.stderr, "reprise: building %s\n", program)
		}
		if binary, err = a.buildProgram(ctx, program, dir); err != nil {
			return err
		}
	}
	return a.runProgram(ctx, program, binary, args)
}

// buildProgram builds the main package in folder and puts the binary into dir, which must be empty.
// It returns the name of the binary.
func (a *app) buildProgram(ctx context.Context, folder, dir string) (string, error) {
	build := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), ".")
	build.Dir, build.Stdout, build.Stderr = folder, a.stderr, a.stderr
	if err := build.Run(); ctx.Err() != nil {
		return "", context.Cause(ctx)
	} else if err != nil {
		return "", fmt.Errorf("build %s: %w", folder, err)
	}
	built, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	} else if len(built) != 1 {
		return "", fmt.Errorf("build %s: got %d programs, want one", folder, len(built))
	}
	return filepath.Join(dir, built[0].Name()), nil
}

// runProgram runs the program until it ends. When ctx is done, it asks the program to
// end and waits until it has.
func (a *app) runProgram(ctx context.Context, program, binary string, args []string) error {
	cmd := exec.CommandContext(ctx, binary, append([]string{"-dir", a.dir}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	endWithParent(cmd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails on Windows, where Ctrl-C reaches all processes of a console
		return nil
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState != nil && cmd.ProcessState.Success(): // even if it was asked to end
		return nil
	case errors.As(err, &exit):
		return fmt.Errorf("%s ended with %w", program, exit)
	}
	return err
}
