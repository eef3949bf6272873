// Command cluster is a server, three workers and a dashboard, each a process of
// its own on this machine. Start it, open the dashboard, start runs with the lines
// that it prints, and kill any of the processes: the runs of a worker go on in the
// others, and everything else comes back.
//
//	go run ./examples/cluster
package main
