// Command cluster runs a server, three workers and a dashboard as separate processes on this machine.
// Start it, open the dashboard, start runs with the printed commands, and kill any of the processes:
// other workers continue a killed worker's runs, and each killed process is restarted.
//
//	go run ./examples/cluster
package main
