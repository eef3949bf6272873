package actors

import (
	"crypto/sha256"
	"reflect"
	"sync"
	"unsafe"

	"github.com/reprise-go/reprise/record"
)

// A conversation grows by a few messages in each turn, and each turn is a call whose input is
// hashed. To avoid hashing every message again, the hash of a conversation is computed from two
// hashes: that of the conversation without its last message, and that of the message. An agent
// keeps the hashes that it has computed.

// digests holds the hashes of a conversation after each message.
type digests struct {
	mu    sync.Mutex
	known []digest
}

// digest contains the hashes of a conversation that ends with message.
type digest struct {
	message  Message
	identity record.Hash // see Request.Identity
	whole    record.Hash
	size     int // a lower bound on the size of the encoded messages
}

// of returns the digest of the messages. It encodes only the messages that are new or have changed.
// A nil d holds no hashes.
func (d *digests) of(messages []Message) (digest, error) {
	var last digest
	if d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
	}
	for i := range messages {
		if d != nil && i < len(d.known) && d.known[i].message.isCopiedAs(&messages[i]) {
			last = d.known[i]
			continue
		}
		next, err := last.with(&messages[i])
		if err != nil {
			return digest{}, err
		}
		last = next
		if d != nil {
			d.known = append(d.known[:i], next)
		}
	}
	return last, nil
}

// with returns the digest of the conversation extended by one message.
func (d *digest) with(m *Message) (digest, error) {
	next := digest{message: *m, identity: d.identity, size: d.size + len(m.Text)}
	hash, err := record.HashOf(m)
	if err != nil {
		return digest{}, err
	}
	next.whole = chainHash(d.whole, hash)
	for i := range m.Parts {
		next.size += len(m.Parts[i].Data)
	}
	if m.Role == RoleSystem {
		return next, nil
	}
	if hash, err = record.HashOf(identityOf(m)); err != nil {
		return digest{}, err
	}
	next.identity = chainHash(d.identity, hash)
	return next, nil
}

func chainHash(before, hash record.Hash) record.Hash {
	sum := sha256.Sum256(append(before[:], hash[:]...))
	return record.Hash(sum[:len(before)])
}

// isCopiedAs reports whether n is m itself or a copy of it: the fields of both are equal, and their
// slices and map share the same memory.
func (m *Message) isCopiedAs(n *Message) bool {
	return m.Role == n.Role && m.Text == n.Text && m.Reasoning == n.Reasoning && m.Refusal == n.Refusal &&
		m.ToolCallID == n.ToolCallID && m.IsError == n.IsError && m.Opaque == n.Opaque && m.Commentary == n.Commentary &&
		isSameSlice(m.Parts, n.Parts) && isSameSlice(m.ToolCalls, n.ToolCalls) &&
		isSameSlice(m.Citations, n.Citations) && isSameSlice(m.Logprobs, n.Logprobs) &&
		reflect.ValueOf(m.Extra).UnsafePointer() == reflect.ValueOf(n.Extra).UnsafePointer()
}

// areCopies reports whether, for each message of m, n has a copy of it at the same index.
func areCopies(m, n []Message) bool {
	for i := range m {
		if !m[i].isCopiedAs(&n[i]) {
			return false
		}
	}
	return true
}

func isSameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// IdentityHash implements core.Digester.
func (r Request) IdentityHash() (record.Hash, error) {
	d, err := r.digests.of(r.Messages)
	return chainHash(d.identity, record.Hash{}), err // hashed again, so that the hash is not zero if there are no messages
}

// WholeHash implements core.Digester.
func (r Request) WholeHash() (hash record.Hash, size int, err error) {
	d, err := r.digests.of(r.Messages)
	if err != nil {
		return hash, 0, err
	}
	around := r
	around.Messages = nil
	hash, err = record.HashOf(around)
	return chainHash(d.whole, hash), d.size, err
}
