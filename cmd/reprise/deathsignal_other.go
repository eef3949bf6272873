//go:build !linux

package main

import "os/exec"

// endWithParent does nothing: other systems cannot signal a child process when its
// parent is killed.
func endWithParent(*exec.Cmd) {}
