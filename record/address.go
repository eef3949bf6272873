package record

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/internal/segment"
)

// An Address is the path of a call in its run. Runs of the same code have the same addresses:
//
//	assistant                            a root call
//	assistant/get_weather                a call by the first attempt of assistant
//	assistant/get_weather#2              its second call of that name
//	assistant/step:collect               a call with a tag
//	assistant@2/get_weather              a call by the second attempt of assistant
//	assistant@pre/get_weather            a call by a precondition of assistant
//	assistant/book@undo/book             the compensation of assistant/book
//	assistant/group:collect/3            branch 3 of a group
//	assistant/group:collect/3/get_weather  a call by that branch
//	assistant/?2                         its second question, only in claims
//	assistant/?sleep1                    its first sleep, only in claims
//
// Names and tags are escaped, so no two calls of a run have the same address. Addresses are
// comparable. The zero Address is that of the run itself.
type Address callsite.Call

// ParseAddress parses an address in the form that [Address.String] returns. If a segment is
// invalid, the error names it.
func ParseAddress(s string) (Address, error) {
	if s == "" {
		return Address{}, nil
	}
	for _, part := range strings.Split(s, "/") {
		if err := checkSegment(part); err != nil {
			return Address{}, fmt.Errorf("record: address %q: %w", s, err)
		}
	}
	scope, last := "", s
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		scope, last = s[:i], s[i+1:]
	}
	if strings.Contains(last, "@") {
		return Address{}, fmt.Errorf("record: address %q: an attempt (@) must be followed by a call that it made", s)
	}
	name, number, numbered := strings.Cut(last, "#")
	nth := 1
	if numbered {
		nth, _ = strconv.Atoi(number) // checkSegment has checked it
	}
	return Address(callsite.Of(strings.Clone(scope), strings.Clone(name)).Call(nth)), nil
}

// checkSegment accepts the forms name, name#n, name@n, name#n@m, name@pre, name@undo, step:name,
// group:name, ?n and ?sleepn.
func checkSegment(part string) error {
	number, asked := strings.CutPrefix(part, segment.SleepMark)
	if !asked {
		number, asked = strings.CutPrefix(part, segment.QuestionMark)
	}
	if asked && (number == "1" || isOrdinal(number)) {
		return nil
	}
	rest, attempt, hasAttempt := strings.Cut(part, "@")
	name, nth, hasNth := strings.Cut(rest, "#")
	if hasAttempt && !isOrdinal(attempt) && attempt != preconditions && attempt != compensations || hasNth && !isOrdinal(nth) {
		return fmt.Errorf("segment %q: the number after # or @ must be at least 2", part)
	}
	if rest, ok := strings.CutPrefix(name, segment.TagPrefix); ok {
		name = rest
	} else {
		name = strings.TrimPrefix(name, segment.GroupPrefix)
	}
	if plain, err := segment.Unescape(name); err != nil {
		return fmt.Errorf("segment %q: %w", part, err)
	} else if plain == "" {
		return fmt.Errorf("segment %q has no name", part)
	} else if segment.Escape(plain) != name {
		return fmt.Errorf("segment %q: the characters / # @ : ? %% must be escaped, and no others", part)
	}
	return nil
}

func isOrdinal(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 2 && strconv.Itoa(n) == s
}

// IsZero reports whether a is the address of the run itself.
func (a Address) IsZero() bool { return callsite.Call(a).Nth() == 0 }

// String returns the path, in the form that [ParseAddress] parses.
func (a Address) String() string {
	c := callsite.Call(a)
	scope, name := c.Scope(), c.Name()
	if scope == "" && c.Nth() <= 1 {
		return name
	}
	return string(a.AppendTo(make([]byte, 0, len(scope)+len(name)+8)))
}

// AppendTo appends the path to b and returns the extended buffer.
func (a Address) AppendTo(b []byte) []byte {
	c := callsite.Call(a)
	if scope := c.Scope(); scope != "" {
		b = append(append(b, scope...), '/')
	}
	b = append(b, c.Name()...)
	if c.Nth() > 1 {
		b = strconv.AppendInt(append(b, '#'), int64(c.Nth()), 10)
	}
	return b
}

// IsBranch reports whether a is the address of a branch of a group.
func (a Address) IsBranch() bool { return callsite.Call(a).IsBranch() }

// Depth returns the number of calls that enclose the call. It is 0 for a root call.
func (a Address) Depth() int {
	scope := a.Scope()
	if scope == "" {
		return 0
	}
	return 1 + strings.Count(scope, "/")
}

// Scope returns the path of the scope in which the call is numbered, such as "assistant@2" for
// assistant@2/get_weather. The path contains no attempt number if the attempt is the first. It is
// empty for a root call.
func (a Address) Scope() string { return callsite.Call(a).Scope() }

// Tag returns the call's tag, or an empty string if it has none.
func (a Address) Tag() string {
	tag, ok := strings.CutPrefix(callsite.Call(a).Name(), segment.TagPrefix)
	if !ok {
		return ""
	}
	tag, _ = segment.Unescape(tag)
	return tag
}

// Path returns the scope of the calls that the given attempt makes. Attempts are counted from 0:
// the scope is "assistant" for the first attempt and "assistant@2" for the second.
func (a Address) Path(attempt int) string {
	if attempt == 0 {
		return a.String()
	}
	b := append(a.AppendTo(nil), '@')
	switch attempt {
	case callsite.PreconditionAttempt:
		return string(append(b, preconditions...))
	case callsite.CompensationAttempt:
		return string(append(b, compensations...))
	}
	return string(strconv.AppendInt(b, int64(attempt)+1, 10))
}

// MarshalText returns the path.
func (a Address) MarshalText() ([]byte, error) { return a.AppendTo(nil), nil }

// UnmarshalText parses text that MarshalText returned.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddress(string(text))
	return err
}

const (
	preconditions = "pre" // used in place of an attempt number
	compensations = "undo"
)

// IsInside reports whether the call at a was made, directly or indirectly, by an attempt of the
// call at around.
func (a Address) IsInside(around Address) bool {
	if around.IsZero() {
		return false
	}
	rest, ok := strings.CutPrefix(a.String(), around.String())
	return ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, "@"))
}

// WithoutAttempts returns the path without the attempt numbers of the calls that contain this call.
// The result is the same in every attempt of a parent that is retried.
func (a Address) WithoutAttempts() string {
	path := a.String()
	var b strings.Builder
	for {
		before, after, found := strings.Cut(path, "@")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if strings.HasPrefix(after, preconditions) || strings.HasPrefix(after, compensations) {
			b.WriteByte('@') // the path does not continue with an attempt number
		}
		path = strings.TrimLeft(after, "0123456789")
	}
}
