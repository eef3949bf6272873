// Package nearest finds the name that a misspelled name was probably meant to be.
package nearest

// To returns the element of names that is closest to name, or "" if none is close. An element is
// close if it differs from name by at most two edits, and by at most a third of its letters,
// rounded up.
func To(name string, names []string) string {
	best, fewest := "", 3
	for _, candidate := range names {
		if d := distance(name, candidate, fewest); d < fewest && 3*d <= len(candidate)+2 {
			best, fewest = candidate, d
		}
	}
	return best
}

// distance returns how many insertions, deletions, replacements and swaps of neighboring letters
// are needed to turn a into b. It returns limit if the number is limit or more.
func distance(a, b string, limit int) int {
	if max(len(a)-len(b), len(b)-len(a)) >= limit {
		return limit
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return min(above[len(b)], limit)
}
