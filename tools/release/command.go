package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// git runs a git command in a directory and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w%s", strings.Join(args, " "), err, stderrOf(err))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// stderrOf returns what a failed command printed to standard error.
func stderrOf(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(exit.Stderr))
}
