package main

import (
	"context"
	"os"
	"os/signal"
	"os/user"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, &environment{
		stdin:    os.Stdin,
		stdout:   os.Stdout,
		stderr:   os.Stderr,
		getenv:   os.Getenv,
		now:      time.Now,
		username: username,
		terminal: term.IsTerminal(int(os.Stdin.Fd())),
	}, os.Args[1:])
	stop()
	os.Exit(code)
}

// username returns the name of the operating system's user, or "" if it is unknown. A container may
// run as a user that has no name.
func username() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
