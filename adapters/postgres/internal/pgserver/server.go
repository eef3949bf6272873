package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotInstalled is returned if PostgreSQL is not installed on this machine.
var ErrNotInstalled = errors.New("pgserver: PostgreSQL is not installed: no initdb on PATH or in /usr/lib/postgresql")

// A Server is a PostgreSQL server in a separate process. Its methods must not be called concurrently.
type Server struct {
	URL  string // for the superuser postgres
	cmd  *exec.Cmd
	dead chan struct{}
}

// Start starts a server that listens on a port of 127.0.0.1 and keeps its data in dir. Start
// creates the directory if it does not exist; other users must be able to access it. If the caller
// is root, the server runs as the user postgres, because PostgreSQL refuses to run as root. Start
// waits until the server accepts connections.
func Start(ctx context.Context, dir string, port int, settings ...string) (*Server, error) {
	bin, err := directory()
	if err != nil {
		return nil, err
	}
	as, uid, err := owner()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err != nil {
		if err := initialize(ctx, bin, dir, data, as, uid); err != nil {
			return nil, err
		}
	}
	args := []string{"-D", data, "-c", "port=" + strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	for _, set := range settings {
		args = append(args, "-c", set)
	}
	s := &Server{URL: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)}
	for { // a killed server leaves shared memory behind, and the next server must wait until the memory is released
		again, err := s.start(ctx, filepath.Join(bin, "postgres"), filepath.Join(dir, "log"), args, as)
		if err == nil || !again {
			return s, err
		}
	}
}

// Backup copies a stopped server's data into another directory, from which Start can start another
// server. If standby is set, the other server follows this one, and is read-only until pg_promote is
// called on it.
func (s *Server) Backup(ctx context.Context, dir string, standby bool) error {
	as, uid, err := owner()
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chown(dir, uid, -1)); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	if err := run(ctx, as, dir, "cp", "-R", "-p", filepath.Join(s.cmd.Dir, "data"), data); err != nil || !standby {
		return err
	}
	settings, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(settings, "primary_conninfo = '%s'\n", s.URL)
	return errors.Join(err, settings.Close(), os.WriteFile(filepath.Join(data, "standby.signal"), nil, 0o644)) //nolint:gosec // the server reads it
}

// run runs a program in a directory and waits until it ends.
func run(ctx context.Context, as *syscall.SysProcAttr, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr, cmd.Dir = as, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgserver: %s: %w: %s", filepath.Base(program), err, out)
	}
	return nil
}

// directory returns the directory of the PostgreSQL programs found on PATH, or else of the newest
// installed PostgreSQL.
func directory() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrNotInstalled
	}
	return filepath.Dir(slices.Max(found)), nil
}

// owner returns the process attributes with which to run the server, and the ID of the user that
// the server runs as, or -1 for the current user.
func owner() (*syscall.SysProcAttr, int, error) {
	attributes := &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach the server
	if os.Getuid() != 0 {
		return attributes, -1, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, 0, fmt.Errorf("pgserver: a server cannot run as root: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, 0, err
	}
	gid, err := strconv.Atoi(u.Gid)
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, uid, err
}

func initialize(ctx context.Context, bin, dir, data string, as *syscall.SysProcAttr, uid int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chown(dir, uid, -1); err != nil {
		return err
	}
	return run(ctx, as, dir, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions")
}

// start starts the process. If that fails, start reports whether to try again.
func (s *Server) start(ctx context.Context, program, logFile string, args []string, as *syscall.SysProcAttr) (again bool, err error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { _ = log.Close() }()
	s.cmd = exec.Command(program, args...) //nolint:noctx // Stop ends it
	s.cmd.SysProcAttr, s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = as, filepath.Dir(logFile), log, log
	if err := s.cmd.Start(); err != nil {
		return false, err
	}
	s.dead = make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(s.dead)
	}()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return false, conn.Close(ctx)
		}
		select {
		case <-s.dead:
			return s.cmd.ProcessState.ExitCode() == 1 && ctx.Err() == nil, fmt.Errorf("pgserver: the server has ended: %v; see %s", s.cmd.ProcessState, logFile)
		case <-ctx.Done():
			return false, errors.Join(context.Cause(ctx), s.Kill())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Ended returns a channel that is closed when the server has ended.
func (s *Server) Ended() <-chan struct{} { return s.dead }

// PID returns the process ID of the server's first process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop stops the server and its connections. Transactions in progress are rolled back.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash would. The server's other processes end when they notice.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

func (s *Server) end(signal syscall.Signal) error {
	err := s.cmd.Process.Signal(signal)
	<-s.dead
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
