package resolve

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// maxCompared bounds the number of names that are compared with a name that does not exist.
	maxCompared = 20_000
	// maxEdits is the maximum number of edits by which a misspelled name can differ from the intended one.
	maxEdits = 2
	// minPart is the minimum length of a name that is considered similar to another name because it is a part of
	// that name.
	minPart = 3
)

// Similar returns the names that a user may have meant, most similar first, at most maxNamed. It compares at most
// maxCompared names.
func Similar(wanted string, names []string) []string {
	return similar(wanted, names[:min(len(names), maxCompared)])
}

// similar returns the names that a user may have meant, most similar first, at most maxNamed.
func similar(wanted string, names []string) []string {
	type match struct {
		name  string
		edits int
	}
	var found []match
	for _, name := range names {
		edits := distance(wanted, name)
		if edits > maxEdits && len(wanted) >= minPart && len(name) >= minPart && (strings.Contains(name, wanted) || strings.Contains(wanted, name)) {
			edits = maxEdits
		}
		if edits <= maxEdits && edits < len(wanted) {
			found = append(found, match{name, edits})
		}
	}
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(a.edits, b.edits), cmp.Compare(a.name, b.name)) })
	var out []string
	for _, m := range found[:min(len(found), maxNamed)] {
		out = append(out, m.name)
	}
	return out
}

// far is the distance of names that differ by more than maxEdits, and band is the number of distances in a row.
const (
	far  = maxEdits + 1
	band = 2*maxEdits + 1
)

// distance returns the number of bytes to insert, delete or replace to turn a into b, or far if there are more than
// maxEdits. Its time is linear in the length of the names.
func distance(a, b string) int {
	if len(a)-len(b) > maxEdits || len(b)-len(a) > maxEdits {
		return far
	}
	row, next := farRow(), farRow()
	for j := range min(maxEdits, len(b)) + 1 {
		row[column(0, j)] = j
	}
	for i := range len(a) {
		fillRow(&next, &row, a, b, i+1)
		row, next = next, row
	}
	return min(row[column(len(a), len(b))], far)
}

// column returns the position, in the row for a[:i], of the distance from a[:i] to b[:j].
func column(i, j int) int { return j - i + maxEdits + 1 }

// distances are a row, with an extra distance at each end, so that the neighbors of a distance always exist.
type distances [band + 2]int

// farRow returns a row of large distances.
func farRow() (row distances) {
	for at := range row {
		row[at] = far
	}
	return row
}

// fillRow sets next to the distances from a[:i] to the prefixes of b, given the row for a[:i-1].
func fillRow(next, row *distances, a, b string, i int) {
	*next = farRow()
	for j := max(0, i-maxEdits); j <= min(len(b), i+maxEdits); j++ {
		at := column(i, j)
		if j == 0 {
			next[at] = i
			continue
		}
		replaced := row[at]
		if a[i-1] != b[j-1] {
			replaced++
		}
		next[at] = min(replaced, next[at-1]+1, row[at+1]+1)
	}
}
