package main

import (
	"os/exec"
	"syscall"
)

// endWithUs has the program asked to end when this process is killed. The kernel
// does so when the thread ends that starts the program.
func endWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
