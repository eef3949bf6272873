// Command cluster runs three workers on a PostgreSQL database. Each worker is a separate process
// that serves a dashboard of all runs. Start the command, open a dashboard, start runs with the
// commands that it prints, and kill any of the workers: the other workers continue its runs, and
// the worker is restarted.
//
//	DATABASE_URL=postgres://app@db/app go run ./examples/cluster
//
// Without DATABASE_URL, the command starts a server in -dir, if PostgreSQL is installed. That
// server can be killed, too.
package main
