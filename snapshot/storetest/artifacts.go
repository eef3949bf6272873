package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/reprise-go/reprise/snapshot"
)

// RunArtifacts checks an artifact store. Each of its tests calls open once to
// obtain an empty store.
func RunArtifacts(t *testing.T, open func(t *testing.T) snapshot.ArtifactStore) {
	t.Run("AnArtifactComesBack", func(t *testing.T) {
		a := open(t)
		for _, data := range [][]byte{[]byte("an output"), {}, nil, bytes.Repeat([]byte{0, 255}, 100_000)} {
			ref, err := a.Put(t.Context(), data)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(data); ref != hex.EncodeToString(sum[:]) {
				t.Errorf("the reference %s is not the SHA-256 of the data", ref)
			}
			got, err := a.Get(t.Context(), ref)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("got %d bytes and the error %v, want %d bytes", len(got), err, len(data))
			}
		}
	})
	t.Run("AnArtifactIsACopy", func(t *testing.T) {
		a := open(t)
		data := []byte("an output")
		ref, err := a.Put(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		data[0] = 'X'
		got, _ := a.Get(t.Context(), ref)
		if string(got) != "an output" {
			t.Fatalf("after a change to the caller's slice, the artifact is %q", got)
		}
		got[0] = 'X'
		if got, _ = a.Get(t.Context(), ref); string(got) != "an output" {
			t.Errorf("after a change to the returned slice, the artifact is %q", got)
		}
	})
	t.Run("WhatIsNotThereIsNotFound", func(t *testing.T) {
		a := open(t)
		missing := hex.EncodeToString(make([]byte, sha256.Size))
		for _, ref := range []string{missing, "", "ab", "../../etc/passwd", missing[:62] + "/.", missing + "00"} {
			if _, err := a.Get(t.Context(), ref); !errors.Is(err, snapshot.ErrNotFound) {
				t.Errorf("Get(%q): the error is %v", ref, err)
			}
		}
	})
	t.Run("TheSameArtifactIsPutByMany", func(t *testing.T) {
		a := open(t)
		var wait sync.WaitGroup
		for n := range 16 {
			wait.Go(func() {
				data := fmt.Appendf(nil, "output %d", n%4)
				for range 5 {
					ref, err := a.Put(t.Context(), data)
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := a.Get(t.Context(), ref); err != nil || !bytes.Equal(got, data) {
						t.Errorf("got %q and the error %v, want %q", got, err, data)
					}
				}
			})
		}
		wait.Wait()
	})
	t.Run("AContextThatHasEndedIsAnError", func(t *testing.T) {
		a := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Put(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
			t.Errorf("Put: the error is %v", err)
		}
		ref, err := a.Put(t.Context(), []byte("y"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Get(ctx, ref); !errors.Is(err, context.Canceled) {
			t.Errorf("Get: the error is %v", err)
		}
	})
}
