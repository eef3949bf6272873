package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the number of the last migration.
const schemaVersion = 1

// versions creates the table that records which migrations were applied to the schema.
const versions = `create table if not exists reprise.migrations (version int primary key, applied timestamptz not null default clock_timestamp())`

// Errors about a schema's version, for use with errors.Is.
var (
	ErrSchemaOld = errors.New("postgres: the schema is older than this version of Reprise")
	ErrSchemaNew = errors.New("postgres: the schema is newer than this version of Reprise: use a newer Reprise")
)

// Migrate brings a schema to the version that this package needs, and creates the schema if it does
// not exist. An empty schema means the default in [Options]. Migrate runs in one transaction.
// Concurrent migrations wait for each other. The tables belong to the connection's role. The role of
// the processes that use them needs only
//
//	grant usage on schema reprise to app;
//	grant select, insert, update, delete on all tables in schema reprise to app;
func Migrate(ctx context.Context, conn interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, schema string,
) error {
	in, err := checkSchemaName(schema)
	if err != nil {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := migrate(ctx, tx, in); err != nil {
		return fmt.Errorf("postgres: migrate schema %s: %w", in, err)
	}
	return nil
}

func migrate(ctx context.Context, tx pgx.Tx, in schemaName) error {
	if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('reprise', 0))`); err != nil {
		return err
	}
	var exists bool // a role without the privilege to create schemas may use an existing schema
	if err := tx.QueryRow(ctx, `select exists (select from pg_namespace where nspname = $1)`, string(in)).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Exec(ctx, `create schema `+in.quoted()); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, in.sql(versions)); err != nil {
		return err
	}
	var version int
	if err := tx.QueryRow(ctx, in.sql(`select coalesce(max(version), 0) from reprise.migrations`)).Scan(&version); err != nil {
		return err
	} else if version > schemaVersion {
		return fmt.Errorf("%w: it has version %d, but this package supports only versions up to %d", ErrSchemaNew, version, schemaVersion)
	}
	steps, err := in.steps(version)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if _, err := tx.Conn().PgConn().Exec(ctx, step).ReadAll(); err != nil { // a migration has several statements
			return err
		}
	}
	return tx.Commit(ctx)
}

// MigrationSQL returns the statements with which Migrate would update a schema from the given
// version. Another tool can execute them, in one transaction. For a schema that does not exist,
// from is 0.
func MigrationSQL(schema string, from int) (string, error) {
	in, err := checkSchemaName(schema)
	if err != nil {
		return "", err
	}
	if from < 0 || from > schemaVersion {
		return "", fmt.Errorf("postgres: from version %d; want 0 to %d", from, schemaVersion)
	}
	steps, err := in.steps(from)
	if err != nil {
		return "", err
	}
	if from == 0 {
		steps = append([]string{"create schema if not exists " + in.quoted() + ";\n" + in.sql(versions) + ";\n"}, steps...)
	}
	return strings.Join(steps, "\n"), nil
}

// steps returns the migrations after a version, each with the statement that records the migration.
func (in schemaName) steps(after int) ([]string, error) {
	var steps []string
	for version := after + 1; version <= schemaVersion; version++ {
		step, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", version))
		if err != nil {
			return nil, err
		}
		steps = append(steps, in.sql(fmt.Sprintf("%sinsert into reprise.migrations (version) values (%d);\n", step, version)))
	}
	return steps, nil
}

// checkSchema returns an error unless the schema has the version that this package needs.
func (d *database) checkSchema(ctx context.Context) error {
	var version int
	err := d.pool.QueryRow(ctx, d.schema.sql(`select coalesce(max(version), 0) from reprise.migrations`)).Scan(&version)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == codeNoTable:
		return fmt.Errorf("%w: schema %s has no tables; create them with `reprise-postgres -store URL -schema %[2]s migrate`", ErrSchemaOld, d.schema)
	case err != nil:
		return d.storeError(ctx, err)
	case version < schemaVersion:
		return fmt.Errorf("%w: schema %s has version %d, want %d; migrate it with `reprise-postgres -store URL -schema %[2]s migrate`", ErrSchemaOld, d.schema, version, schemaVersion)
	case version > schemaVersion:
		return fmt.Errorf("%w: schema %s has version %d, want %d", ErrSchemaNew, d.schema, version, schemaVersion)
	}
	return nil
}

// schemaName is the name of a store's schema. The statements in this package are written for a
// schema named reprise.
type schemaName string

const maxSchema = 40

// checkSchemaName checks a schema's name.
func checkSchemaName(schema string) (schemaName, error) {
	if schema == "" {
		return defaultSchema, nil
	}
	if len(schema) > maxSchema || strings.ContainsFunc(schema, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}) {
		return "", fmt.Errorf("postgres: schema %.60q; want 1 to %d letters, digits, dashes and underscores", schema, maxSchema)
	}
	return schemaName(schema), nil
}

const defaultSchema = "reprise"

func (in schemaName) quoted() string { return pgx.Identifier{string(in)}.Sanitize() }

// sql returns the statement, rewritten to use the schema.
func (in schemaName) sql(statement string) string {
	if in == defaultSchema {
		return statement
	}
	return strings.ReplaceAll(statement, defaultSchema+".", in.quoted()+".")
}
