package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/adapters/postgres/internal/pgserver"
	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
)

// patience limits how long a test waits for something to become true. It is so generous that it
// should never be reached.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	if _, isProgram := os.LookupEnv("REPRISE_TEST_PROGRAM"); isProgram {
		process.Main(m, process.Programs{"work": work})
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is the server for all tests of the package: the one in DATABASE_URL, whose role
// must be a superuser, or one that the first test starts.
var shared sharedServer

type sharedServer struct {
	once   sync.Once
	url    string
	err    error
	dir    string
	server *pgserver.Server

	pool *pgxpool.Pool // for the role with few privileges

	mu     sync.Mutex
	admin  *pgx.Conn
	free   []string // schemas left over from earlier tests
	schema int
}

func (s *sharedServer) start() {
	if s.url = os.Getenv("DATABASE_URL"); s.url == "" {
		s.dir, s.err = os.MkdirTemp("", "reprise-postgres")
		if s.err != nil {
			return
		}
		var free []int
		if free, s.err = ports.Free(1); s.err != nil {
			return
		}
		if s.server, s.err = pgserver.Start(context.Background(), s.dir, free[0], "max_connections=300"); s.err != nil {
			return
		}
		s.url = s.server.URL
	}
	if s.admin, s.err = pgx.Connect(context.Background(), s.url); s.err != nil {
		return
	}
	if _, s.err = s.admin.Exec(context.Background(), `do $$ begin
		if not exists (select from pg_roles where rolname = 'reprise_app') then create role reprise_app login; end if; end $$`); s.err != nil {
		return
	}
	var url string
	if url, s.err = asApp(s.url); s.err == nil {
		s.pool, s.err = poolOf(url, 16)
	}
}

func (s *sharedServer) stop() error {
	if s.pool != nil {
		s.pool.Close()
	}
	if s.server == nil {
		return nil
	}
	return errors.Join(s.server.Stop(), os.RemoveAll(s.dir))
}

// serverURL returns the URL of the superuser. The test is skipped if there is no
// server.
func serverURL(t testing.TB) string {
	t.Helper()
	shared.once.Do(shared.start)
	if errors.Is(shared.err, pgserver.ErrNotInstalled) {
		t.Skipf("%v, and DATABASE_URL is not set", shared.err)
	}
	require.NoError(t, shared.err)
	return shared.url
}

// asApp returns the URL for a role that has only the privileges that Migrate documents.
func asApp(of string) (string, error) {
	u, err := url.Parse(of)
	if err != nil {
		return "", err
	}
	u.User = url.User("reprise_app")
	return u.String(), nil
}

// tables are the tables of a schema, in an order in which they can be emptied.
var tables = []string{"jobs", "processes", "runs", "batches", "inbox", "artifacts", "deleted", "effects", "figures", "words"}

// newSchema returns an empty schema that no other test uses.
func newSchema(t testing.TB) string {
	t.Helper()
	serverURL(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	schema := ""
	if n := len(shared.free); n > 0 {
		schema, shared.free = shared.free[n-1], shared.free[:n-1]
		empty := ""
		for _, table := range tables {
			empty += `delete from ` + pgx.Identifier{schema, table}.Sanitize() + `;`
		}
		_, err := shared.admin.Exec(t.Context(), empty)
		require.NoError(t, err)
	} else {
		shared.schema++
		schema = fmt.Sprintf("test-%d-%d", os.Getpid(), shared.schema)
		require.NoError(t, prepare(t.Context(), shared.admin, schema))
	}
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		shared.free = append(shared.free, schema)
	})
	return schema
}

// prepare migrates a schema, and lets the role that the tests use access it.
func prepare(ctx context.Context, admin *pgx.Conn, schema string) error {
	if err := postgres.Migrate(ctx, admin, schema); err != nil {
		return err
	}
	in := pgx.Identifier{schema}.Sanitize()
	_, err := admin.Exec(ctx, `grant usage on schema `+in+` to reprise_app; grant select, insert, update, delete on all tables in schema `+in+` to reprise_app`)
	return err
}

func poolOf(url string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	return pgxpool.NewWithConfig(context.Background(), config)
}

// open opens a store that is closed at the end of the test.
func open(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	serverURL(t)
	return openOn(t, shared.pool, o)
}

func openOn(t testing.TB, pool *pgxpool.Pool, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), pool, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
