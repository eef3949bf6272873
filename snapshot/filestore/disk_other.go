//go:build !unix

package filestore

const noFollow, noWait = 0, 0
