package engine

import (
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/internal/errtree"
	"github.com/reprise-go/reprise/record"
)

// maxNamed is the maximum number of calls that the record of a failed call lists. They take some
// 150 KB, of the 1 MB that some stores allow.
const maxNamed = 5000

// callsNamed returns the calls directly inside c that err, the failure of c, wraps or names in its
// text, and that the text of kept, the recorded form of err, does not name. When the run is retried,
// they show which failures the program did not handle. The result has at most maxNamed calls, so that
// any store can keep the record.
func (c *Call) callsNamed(err, kept error) []record.Address {
	if !c.root.settings.Outputs {
		return nil
	}
	recorded := record.Truncate(fmt.Sprint(kept), record.MessageLimit)
	known := make(map[string]bool)
	c.callsIn(recorded, func(path string) { known[path] = true })
	var named []record.Address
	add := func(path string) {
		if known[path] || len(named) == maxNamed {
			return
		}
		known[path] = true
		if a, err := record.ParseAddress(path); err == nil {
			named = append(named, a)
		}
	}
	c.callsWrapped(err, add)
	if len(recorded) >= record.MessageLimit { // it may have been cut
		c.callsIn(fmt.Sprint(err), add)
	}
	return named
}

// callsWrapped calls found with the path of each call directly inside c whose failure, or the
// failure of a call inside it, err wraps.
func (c *Call) callsWrapped(err error, found func(path string)) {
	defer func() { _ = recover() }() // a method of the user's errors may panic
	errtree.Walk(err, func(err error) {
		if inside, ok := err.(*CallError); ok && inside != nil { //nolint:errorlint // each level by itself
			if address := inside.Address.String(); strings.HasPrefix(address, c.address.String()) {
				if path := c.pathInside(address); path != "" {
					found(path)
				}
			}
		}
	})
}

// callsIn calls found with the path of each call directly inside c whose address, or the address of
// a call inside it, occurs in text.
func (c *Call) callsIn(text string, found func(path string)) {
	around := c.address.String()
	for at := 0; ; {
		i := strings.Index(text[at:], around)
		if i < 0 {
			return
		}
		begin := at + i
		at = begin + len(around)
		if begin > 0 && !strings.ContainsRune(" \t\n\"'([,;=", rune(text[begin-1])) {
			continue
		}
		address := text[begin:]
		if end := strings.IndexAny(address[len(around):], " \t\n\"')],;"); end >= 0 {
			address = strings.TrimSuffix(address[:len(around)+end], ":")
		}
		if path := c.pathInside(address); path != "" {
			found(path)
		}
	}
}

// pathInside returns the path of the call directly inside c that address, which begins with the
// address of c, is or is inside of. It returns "" if address is not inside c.
func (c *Call) pathInside(address string) string {
	around := len(c.address.String())
	rest := address[around:]
	if !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "@") {
		return ""
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return ""
	}
	end := strings.IndexAny(rest[slash+1:], "/@")
	if end < 0 {
		return address
	}
	return address[:around+slash+1+end]
}
