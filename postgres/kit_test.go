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

	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/postgres"
	"github.com/reprise-go/reprise/postgres/internal/pgserver"
)

// patience is how long something may take to become true. It is not reached.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	if _, isProgram := os.LookupEnv("REPRISE_TEST_PROGRAM"); isProgram {
		process.Main(m, process.Programs{})
	}
	code := m.Run()
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// shared is the server of all tests of the package: that of DATABASE_URL, whose role must be
// a superuser, or one that the first test starts.
var shared sharedServer

type sharedServer struct {
	once   sync.Once
	url    string
	err    error
	dir    string
	server *pgserver.Server

	mu     sync.Mutex
	free   []string // schemas that tests have left
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
	conn, err := pgx.Connect(context.Background(), s.url)
	if err == nil {
		_, err = conn.Exec(context.Background(), `do $$ begin
			if not exists (select from pg_roles where rolname = 'reprise_app') then create role reprise_app login; end if; end $$`)
		err = errors.Join(err, conn.Close(context.Background()))
	}
	s.err = err
}

func (s *sharedServer) stop() error {
	if s.server == nil {
		return nil
	}
	return errors.Join(s.server.Stop(), os.RemoveAll(s.dir))
}

// serverURL is the URL of the superuser. The test is skipped where there is no server.
func serverURL(t testing.TB) string {
	t.Helper()
	shared.once.Do(shared.start)
	if errors.Is(shared.err, pgserver.ErrNotInstalled) {
		t.Skipf("%v, and DATABASE_URL names no server", shared.err)
	}
	require.NoError(t, shared.err)
	return shared.url
}

// appURL is a URL of a role that may do no more than Migrate says.
func appURL(t testing.TB, of string) string {
	t.Helper()
	u, err := url.Parse(of)
	require.NoError(t, err)
	u.User = url.User("reprise_app")
	return u.String()
}

// tables are those of a schema, in an order in which they can be emptied.
var tables = []string{"jobs", "processes", "runs", "batches", "inbox", "artifacts", "deleted", "effects"}

// newSchema returns an empty schema that no other test has.
func newSchema(t testing.TB) string {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), serverURL(t))
	require.NoError(t, err)
	defer func() { _ = admin.Close(context.Background()) }()
	shared.mu.Lock()
	schema := ""
	if n := len(shared.free); n > 0 {
		schema, shared.free = shared.free[n-1], shared.free[:n-1]
	} else {
		shared.schema++
		schema = fmt.Sprintf("test-%d-%d", os.Getpid(), shared.schema)
	}
	shared.mu.Unlock()
	require.NoError(t, prepare(t.Context(), admin, schema))
	for _, table := range tables {
		_, err := admin.Exec(t.Context(), `delete from `+pgx.Identifier{schema, table}.Sanitize())
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		shared.mu.Lock()
		defer shared.mu.Unlock()
		shared.free = append(shared.free, schema)
	})
	return schema
}

// prepare migrates a schema, and lets the role of the tests use it.
func prepare(ctx context.Context, admin *pgx.Conn, schema string) error {
	if err := postgres.Migrate(ctx, admin, schema); err != nil {
		return err
	}
	in := pgx.Identifier{schema}.Sanitize()
	_, err := admin.Exec(ctx, `grant usage on schema `+in+` to reprise_app; grant select, insert, update, delete on all tables in schema `+in+` to reprise_app`)
	return err
}

// newPool returns a pool of the role that may do little.
func newPool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// open opens a store until the end of the test.
func open(t testing.TB, o postgres.Options) *postgres.Store {
	t.Helper()
	return openAt(t, appURL(t, serverURL(t)), o)
}

func openAt(t testing.TB, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), newPool(t, url), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
