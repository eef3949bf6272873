package schema

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxDigits is how long a number may be to be calculated with exactly.
const maxDigits = 1000

// exact returns the number without rounding. It reports false for a number that
// a float64 cannot come near to: a short text can stand for a million digits.
func exact(text string) (*big.Rat, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || len(text) > maxDigits || f == 0 && strings.ContainsAny(mantissa(text), "123456789") {
		return nil, false
	}
	if f == 0 {
		return new(big.Rat), true // whatever its exponent
	}
	return new(big.Rat).SetString(text)
}

func mantissa(text string) string {
	digits, _, _ := strings.Cut(strings.ToLower(text), "e")
	return digits
}

// isInteger reports whether the number is a whole one, as 1.0 and 1e3 are too.
func isInteger(text string) bool {
	if !strings.ContainsAny(text, ".eE") {
		return true
	}
	if r, ok := exact(text); ok {
		return r.IsInt()
	}
	f, _ := strconv.ParseFloat(text, 64)
	return math.Abs(f) >= 1
}

// compare orders the number and a bound of a schema.
func compare(text string, bound float64) int {
	if r, ok := exact(text); ok {
		return r.Cmp(new(big.Rat).SetFloat64(bound))
	}
	f, _ := strconv.ParseFloat(text, 64)
	if c := cmp.Compare(f, bound); c != 0 || f != 0 {
		return c
	}
	// Next to zero: its sign decides.
	if strings.HasPrefix(text, "-") {
		return -1
	}
	return 1
}

func formatNumber(f float64) string {
	if math.Abs(f) < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
