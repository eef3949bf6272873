package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/storeurl"
	"github.com/reprise-go/reprise/internal/runcopy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const usage = "migrate [-print [FROM]] | " + runcopy.Usage

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("reprise-postgres", flag.ContinueOnError)
	flags.SetOutput(errs)
	url := flags.String("store", os.Getenv("DATABASE_URL"), "the `URL` of the store, such as postgres://app@db/app?schema=runs; defaults to DATABASE_URL in the environment")
	schema := flags.String("schema", "", "the `name` of the schema, if the URL does not contain one; by default reprise")
	printed := flags.Bool("print", false, "print the statements of migrate instead of executing them")
	flags.Usage = func() {
		fmt.Fprintln(errs, "reprise-postgres [flags] "+usage)
		flags.PrintDefaults()
	}
	args, err := runcopy.Parse(flags, args)
	if err != nil {
		return err
	}
	database := ""
	if *url != "" {
		if database, *schema, err = parseURL(*url, *schema); err != nil {
			return err
		}
	}
	if *printed {
		return printMigrations(*schema, args, out)
	}
	do, err := command(args, *schema, out)
	if err != nil {
		return err
	}
	if database == "" {
		return errors.New("no database is given; set -store, or DATABASE_URL in the environment, to a URL such as postgres://app@localhost/app")
	}
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return fmt.Errorf("-store: %w", err)
	}
	defer pool.Close()
	return do(ctx, pool)
}

// parseURL returns the URL of the database and the schema that the URL or -schema names.
func parseURL(url, schema string) (database, in string, err error) {
	database, in, err = storeurl.Parse(url)
	if err == nil && in != "" && schema != "" && in != schema {
		err = fmt.Errorf("the store's URL has schema=%s, but -schema is %s; want only one of them", in, schema)
	}
	return database, cmp.Or(in, schema), err
}

func printMigrations(schema string, args []string, out io.Writer) error {
	if len(args) == 0 || args[0] != "migrate" {
		return fmt.Errorf("-print is only for the command migrate; got %q", args)
	}
	from := 0
	if args = args[1:]; len(args) > 0 {
		var err error
		if from, err = strconv.Atoi(args[0]); err != nil || len(args) > 1 {
			return fmt.Errorf("migrate -print %q: want the version of the schema, such as 1, or nothing", args)
		}
	}
	statements, err := postgres.MigrationSQL(schema, from)
	if err == nil {
		_, err = io.WriteString(out, statements)
	}
	return err
}

// migrate migrates the schema and prints whether this changed the schema.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string, out io.Writer) error {
	store, err := postgres.Open(ctx, pool, postgres.Options{Schema: schema, Mute: true})
	if err == nil {
		err = store.Close()
	}
	done := "has the version of this command; nothing was changed"
	if errors.Is(err, postgres.ErrSchemaOld) {
		done = "was migrated to the version of this command"
	}
	if err := postgres.Migrate(ctx, pool, schema); err != nil { // even after other errors from Open
		return err
	}
	_, err = fmt.Fprintf(out, "schema %s %s\n", cmp.Or(schema, "reprise"), done)
	return err
}

// command returns the command that the arguments name. Errors in the arguments are reported before
// any connection is made.
func command(args []string, schema string, out io.Writer) (func(context.Context, *pgxpool.Pool) error, error) {
	if len(args) == 0 {
		args = []string{""}
	}
	if args[0] == "migrate" && len(args) == 1 {
		return func(ctx context.Context, pool *pgxpool.Pool) error { return migrate(ctx, pool, schema, out) }, nil
	}
	do, err := runcopy.Command(args, out)
	if err == nil && do == nil {
		err = fmt.Errorf("got %q, want %s", args, usage)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, pool *pgxpool.Pool) error {
		store, err := postgres.Open(ctx, pool, postgres.Options{Schema: schema, Mute: true})
		if err != nil {
			return err
		}
		return errors.Join(do(ctx, store), store.Close())
	}, nil
}
