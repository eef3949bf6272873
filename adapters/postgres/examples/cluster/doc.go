// Command cluster is three workers on a PostgreSQL database, each a process of its own that
// serves a dashboard of all runs. Start it, open a dashboard, start runs with the lines that
// it prints, and kill any of the processes: the runs of a worker go on in the others, and
// the worker comes back.
//
//	DATABASE_URL=postgres://app@db/app go run ./examples/cluster
//
// Without DATABASE_URL it starts a server in -dir, where PostgreSQL is installed: that one can
// be killed, too.
package main
