package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// writeProxy writes the released modules in dir to the directory proxy, in the layout of a Go
// module proxy (GOPROXY=file://...). It returns, by name, the files of the nested modules that
// differ from the files in dir.
func writeProxy(ctx context.Context, dir, proxy, version string) (changed map[string][]byte, err error) {
	root := module.Version{Path: rootPath, Version: version}
	hash, err := writeModule(ctx, dir, ".", proxy, root, nil)
	if err != nil {
		return nil, err
	}
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, err
	}
	changed = make(map[string][]byte)
	for _, folder := range released {
		nested := make(map[string][]byte)
		if nested["go.mod"], err = goModOf(dir, folder, version); err != nil {
			return nil, err
		}
		if nested["go.sum"], err = goSumOf(dir, folder, root, hash, goMod); err != nil {
			return nil, err
		}
		if _, err := writeModule(ctx, dir, folder, proxy, module.Version{Path: rootPath + "/" + folder, Version: version}, nested); err != nil {
			return nil, err
		}
		for name, data := range nested {
			changed[folder+"/"+name] = data
		}
	}
	return changed, nil
}

// writeModule writes one module, and returns the hash of its zip file. If changed contains a file
// of the module, that file replaces the one in the module's folder.
func writeModule(ctx context.Context, dir, folder, proxy string, m module.Version, changed map[string][]byte) (hash string, err error) {
	files, err := zipFiles(ctx, dir, folder, changed)
	if err != nil {
		return "", err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return "", err
	}
	at := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		return "", err
	}
	var zipped bytes.Buffer
	if err := zip.Create(&zipped, m, files); err != nil {
		return "", fmt.Errorf("the zip file of %s: %w", m, err)
	}
	goMod := changed["go.mod"]
	if goMod == nil {
		if goMod, err = os.ReadFile(filepath.Join(dir, folder, "go.mod")); err != nil {
			return "", err
		}
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, time.Unix(0, 0).UTC()})
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{"list": []byte(m.Version + "\n"), m.Version + ".info": info, m.Version + ".mod": goMod, m.Version + ".zip": zipped.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return dirhash.HashZip(filepath.Join(at, m.Version+".zip"), dirhash.Hash1)
}

// zipFiles returns the files of a module. A nested module without a LICENSE gets that of the root
// module, as it does from the Go command.
func zipFiles(ctx context.Context, dir, folder string, changed map[string][]byte) ([]zip.File, error) {
	names, err := filesOf(ctx, dir, folder)
	if err != nil {
		return nil, err
	}
	var files []zip.File
	for _, name := range names {
		f := &file{name: name, at: filepath.Join(dir, folder, name), data: changed[name]}
		if stat, err := f.Lstat(); err != nil || !stat.Mode().IsRegular() {
			continue // deleted, or a link
		}
		files = append(files, f)
	}
	if license := filepath.Join(dir, "LICENSE"); !slices.Contains(names, "LICENSE") {
		if _, err := os.Stat(license); err == nil {
			files = append(files, &file{name: "LICENSE", at: license})
		}
	}
	return files, nil
}

// A file is a file of a module. If data is set, it replaces the file's content.
type file struct {
	name, at string
	data     []byte
}

func (f *file) Path() string { return f.name }

func (f *file) Lstat() (fs.FileInfo, error) {
	stat, err := os.Lstat(f.at)
	if err != nil || f.data == nil {
		return stat, err
	}
	return &sizedInfo{stat, int64(len(f.data))}, nil
}

func (f *file) Open() (io.ReadCloser, error) {
	if f.data == nil {
		return os.Open(f.at)
	}
	return io.NopCloser(bytes.NewReader(f.data)), nil
}

type sizedInfo struct {
	fs.FileInfo
	size int64
}

func (s *sizedInfo) Size() int64 { return s.size }

func openerOf(data []byte) func(string) (io.ReadCloser, error) {
	return func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}
