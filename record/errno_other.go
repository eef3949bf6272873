//go:build !linux && !darwin && !windows

package record

var systemErrnos []namedErrno
