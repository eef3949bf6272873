package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An Amount is what calls consume. In a limit, a zero field means that there is no
// limit.
type Amount struct {
	Tokens int64         `json:"tokens,omitempty"` // input and output
	Cost   float64       `json:"cost,omitempty"`   // in the currency of the prices
	Calls  int64         `json:"calls,omitempty"`  // attempts that were made
	Time   time.Duration `json:"time,omitempty"`   // total time of all calls, in nanoseconds
}

// Plus returns the sum a + b.
func (a Amount) Plus(b Amount) Amount {
	return Amount{
		addInt64(a.Tokens, b.Tokens), a.Cost + b.Cost, addInt64(a.Calls, b.Calls), time.Duration(addInt64(int64(a.Time), int64(b.Time))),
	}
}

// addInt64 returns a + b, or the nearest number that an int64 can hold.
func addInt64(a, b int64) int64 {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	}
	return s
}

// Minus returns the difference a - b.
func (a Amount) Minus(b Amount) Amount {
	return Amount{a.Tokens - b.Tokens, a.Cost - b.Cost, a.Calls - b.Calls, a.Time - b.Time}
}

// IsZero reports whether all fields are zero.
func (a Amount) IsZero() bool { return a == Amount{} }

// String returns the fields that are not zero, such as "12000 tokens, 3 calls".
func (a Amount) String() string {
	var parts []string
	for _, part := range [...]struct {
		is   bool
		text string
	}{
		{a.Tokens != 0, plural(a.Tokens, "token")},
		{a.Cost != 0, "cost " + money(a.Cost)},
		{a.Calls != 0, plural(a.Calls, "call")},
		{a.Time != 0, a.Time.Round(time.Millisecond).String()},
	} {
		if part.is {
			parts = append(parts, part.text)
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

func plural(n int64, unit string) string {
	if n != 1 && n != -1 {
		unit += "s"
	}
	return strconv.FormatInt(n, 10) + " " + unit
}

func money(cost float64) string { return strconv.FormatFloat(cost, 'g', 6, 64) }

// check returns an error if a field is negative or not finite. In the error, what names the amount.
func (a Amount) check(what string) error {
	for _, field := range [...]struct {
		name  string
		value any
		ok    bool
	}{
		{"Tokens", a.Tokens, a.Tokens >= 0},
		{"Cost", a.Cost, a.Cost >= 0 && !math.IsInf(a.Cost, 0)},
		{"Calls", a.Calls, a.Calls >= 0},
		{"Time", a.Time, a.Time >= 0},
	} {
		if !field.ok {
			return fmt.Errorf("budget: %s.%s is %v; want 0 or more", what, field.name, field.value)
		}
	}
	return nil
}

// tolerance is the rounding error allowed in sums of costs.
const tolerance = 1e-9

// shortage describes the limit that a call exceeds if it needs the amount a in addition to used,
// such as "10 of 10 calls are used". It returns "" if the call exceeds no limit.
func (a Amount) shortage(used, limit Amount) string {
	sum := used.Plus(a)
	switch {
	case limit.Calls > 0 && sum.Calls > limit.Calls:
		return fmt.Sprintf("%d of %s are used", used.Calls, plural(limit.Calls, "call"))
	case limit.Tokens > 0 && sum.Tokens > limit.Tokens:
		return fmt.Sprintf("%d of %s are used, and the call needs about %d", used.Tokens, plural(limit.Tokens, "token"), a.Tokens)
	case limit.Cost > 0 && sum.Cost > limit.Cost+tolerance:
		return fmt.Sprintf("%s of the cost of %s is used, and the call needs about %s", money(used.Cost), money(limit.Cost), money(a.Cost))
	case limit.Time > 0 && sum.Time >= limit.Time:
		return fmt.Sprintf("%v of %v are used", used.Time.Round(time.Millisecond), limit.Time)
	}
	return ""
}
