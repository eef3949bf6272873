package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version returns the versions of the module and of Go, and the platform.
func version() string {
	v := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	return fmt.Sprintf("%s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
