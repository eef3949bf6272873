package state

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// randomPath returns the path of an address. Some of its names are prefixes of other names, and the
// names sort before or after the separators of addresses.
func randomPath(rng *rand.Rand) string {
	names := []string{"a", "a-", "a0", "aa", "a~", "b", "step:a", "group:a/1", "group:a/12"}
	var b strings.Builder
	for range rng.IntN(4) {
		b.WriteString(names[rng.IntN(len(names))])
		if n := 1 + rng.IntN(12); n > 1 && rng.IntN(2) == 0 {
			fmt.Fprint(&b, "#", n)
		}
		b.WriteString([]string{"", "", "@2", "@3", "@12", "@pre"}[rng.IntN(6)])
		b.WriteByte('/')
	}
	return b.String() + names[rng.IntN(6)]
}

// scopesOf returns the calls that surround the call at the path, each with the number of its
// attempt.
func scopesOf(path string) (around []record.Address, attempts []int) {
	for scope := outerScope(path); scope != ""; scope = outerScope(scope) {
		a, err := record.ParseAddress(callOf(scope))
		if err != nil {
			continue
		}
		attempt := 0
		if ordinal, ok := strings.CutPrefix(scope, a.String()+"@"); ok {
			attempt = -1
			if _, err := fmt.Sscan(ordinal, &attempt); err == nil {
				attempt--
			}
		}
		around, attempts = append(around, a), append(attempts, attempt)
	}
	return around, attempts
}

func numbersOf(records iter.Seq[*placedRecord]) (numbers []uint64) {
	for p := range records {
		numbers = append(numbers, p.seq)
	}
	return numbers
}

func TestRecordsAreTakenOnce(t *testing.T) {
	b := byPath{{"", 1}, {"a", 2}, {"a/b", 3}, {"a@2/b", 4}, {"a@pre/b", 5}, {"b", 6}}
	assert.Equal(t, []uint64{3}, takeNumbers(b.inside("a")))
	assert.Equal(t, []uint64{5}, takeNumbers(b.before("a", 1)))
	assert.Equal(t, []uint64{2, 4}, takeNumbers(b.within("a")))
	assert.Empty(t, takeNumbers(b.within("a")))
	assert.Equal(t, []uint64{1}, takeNumbers(b.within("")))
	assert.Equal(t, []uint64{6}, takeNumbers(b.within("b")))
}

func TestRecordsInsideACallAreFoundByPath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var b byPath
		var paths []string
		var arounds [][]record.Address
		var attempts [][]int
		for i := range rng.IntN(60) {
			paths = append(paths, randomPath(rng))
			_, err := record.ParseAddress(paths[i])
			require.NoError(t, err)
			b = append(b, placedRecord{paths[i], uint64(i)})
			around, attempt := scopesOf(paths[i])
			arounds, attempts = append(arounds, around), append(attempts, attempt)
		}
		b.sort()
		for range 40 {
			a, err := record.ParseAddress(randomPath(rng))
			require.NoError(t, err)
			attempt := rng.IntN(13)
			var within, before []uint64
			for i, path := range paths {
				at := slices.Index(arounds[i], a)
				if path == a.String() || at >= 0 {
					within = append(within, uint64(i))
				}
				if at >= 0 && attempts[i][at] < attempt {
					before = append(before, uint64(i))
				}
			}
			assert.ElementsMatch(t, within, numbersOf(b.within(a.String())), "within %s", a)
			assert.ElementsMatch(t, before, numbersOf(b.before(a.String(), attempt)), "before attempt %d of %s", attempt, a)
		}
	}
}
