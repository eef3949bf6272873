// Command cluster runs a server, three workers and a dashboard as separate
// processes on this machine. Start it, open the dashboard, start runs with the
// commands that it prints, and kill any of the processes: other workers continue the runs of a
// killed worker, and each killed process is restarted.
//
//	go run ./examples/cluster
package main
