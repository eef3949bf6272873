//go:build !linux

package filestore

import (
	"errors"
	"os"
)

func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func syncData(f *os.File) error { return f.Sync() }

func nextData(_ *os.File, offset, _ int64) int64 { return offset }

func nextHole(_ *os.File, _, size int64) int64 { return size }
