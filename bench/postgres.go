package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is the server for all contestants that need one. It has its own directory, and is
// stopped at the end.
var postgres struct {
	sync.Mutex
	dir       string // directory of the server's data and socket; empty while it is not running
	bin       string
	databases int
}

// errNoPostgres means that there is no PostgreSQL on this machine.
var errNoPostgres = errors.New("PostgreSQL's initdb is neither in PATH nor in /usr/lib/postgresql")

// postgresBin returns the directory of the PostgreSQL programs.
func postgresBin() (string, error) {
	if name, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(name), nil
	}
	names, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(names) == 0 {
		return "", errNoPostgres
	}
	slices.Sort(names)
	return filepath.Dir(names[len(names)-1]), nil
}

// newDatabase creates an empty database on a server that syncs each commit: the server has the
// default settings, except for the number of connections. The caller must close the pool.
func newDatabase(ctx context.Context) (*pgxpool.Pool, error) {
	postgres.Lock()
	defer postgres.Unlock()
	if postgres.dir == "" {
		if err := startPostgres(); err != nil {
			return nil, err
		}
	}
	postgres.databases++
	name := fmt.Sprint("bench", postgres.databases)
	server, err := pgx.Connect(ctx, fmt.Sprintf("host=%s user=bench dbname=postgres", postgres.dir))
	if err != nil {
		return nil, err
	}
	if _, err := server.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, errors.Join(err, server.Close(ctx))
	}
	if err := server.Close(ctx); err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(fmt.Sprintf("host=%s user=bench dbname=%s pool_max_conns=%d", postgres.dir, name, runsAtOnce))
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func startPostgres() error {
	bin, err := postgresBin()
	if err != nil {
		return err
	}
	postgres.bin = bin
	dir, err := tempDir()
	if err != nil {
		return err
	}
	if err := ownedByPostgres(dir); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	if err := runPostgres("initdb", "-D", data, "-U", "bench", "--auth=trust"); err != nil {
		return err
	}
	settings := fmt.Sprintf("-k %s -c listen_addresses= -c max_connections=200", dir)
	if err := runPostgres("pg_ctl", "-D", data, "-l", filepath.Join(dir, "log"), "-w", "-o", settings, "start"); err != nil {
		return err
	}
	postgres.dir = dir
	return nil
}

// stopPostgres stops the server if it is running.
func stopPostgres() error {
	postgres.Lock()
	defer postgres.Unlock()
	if postgres.dir == "" {
		return nil
	}
	err := runPostgres("pg_ctl", "-D", filepath.Join(postgres.dir, "data"), "-m", "immediate", "-w", "stop")
	postgres.dir = ""
	return err
}

// runPostgres runs a PostgreSQL program. Since such programs refuse to run as root, it uses
// another user if necessary.
func runPostgres(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(postgres.bin, name), args...)
	cmd.Dir = os.TempDir()
	if err := asPostgres(cmd); err != nil {
		return err
	}
	var out bytes.Buffer
	if name != "pg_ctl" { // the server would keep the pipe open
		cmd.Stdout, cmd.Stderr = &out, &out
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out.Bytes())
	}
	return nil
}
