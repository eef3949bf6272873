// Package segment builds the segments of addresses, which are the parts between the slashes.
package segment

import (
	"fmt"
	"strconv"
	"strings"
)

// Prefixes of segments that do not begin with an actor's name.
const (
	TagPrefix    = "step:"
	GroupPrefix  = "group:"
	QuestionMark = "?"
	SleepMark    = "?sleep"

	reserved = "/#@:?%"
)

// Of returns the segment for calls to the actor with the given name.
func Of(name string) string { return Escape(name) }

// OfTag returns the segment for calls with the given tag.
func OfTag(tag string) string { return TagPrefix + Escape(tag) }

// OfGroup returns the segment for groups with the given name.
func OfGroup(name string) string { return GroupPrefix + Escape(name) }

// OfQuestion returns the segment for question n, counting from 1.
func OfQuestion(n int) string { return QuestionMark + strconv.Itoa(n) }

// OfSleep returns the segment for sleep n, counting from 1.
func OfSleep(n int) string { return SleepMark + strconv.Itoa(n) }

// Escape percent-encodes the characters that have a special meaning in addresses, and control
// characters, which would break the line that shows an address.
func Escape(name string) string {
	if !strings.ContainsFunc(name, mustEscape) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; mustEscape(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(c rune) bool {
	return c < 0x20 || c == 0x7f || c < 0x80 && strings.IndexByte(reserved, byte(c)) >= 0
}

// Unescape reverses Escape.
func Unescape(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("%q ends inside an escape", s)
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%q is not an escape", s[i:i+3])
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}
