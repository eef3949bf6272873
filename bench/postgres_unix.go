//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// serverUser returns the user that the server runs as: postgres if this process runs as root.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// asPostgres makes the command run as the user returned by serverUser.
func asPostgres(cmd *exec.Cmd) error {
	who, err := serverUser()
	if who != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	}
	return err
}

// ownedByPostgres makes the user returned by serverUser the owner of dir, which must be inside a
// directory of this process.
func ownedByPostgres(dir string) error {
	who, err := serverUser()
	if who == nil || err != nil {
		return err
	}
	if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
		return err
	}
	return os.Chmod(filepath.Dir(dir), 0o711)
}
