package main

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel send SIGTERM to the program when this process is killed, or more
// precisely when the thread that started the program ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
