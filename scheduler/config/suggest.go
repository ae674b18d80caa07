package config

// Suggestions: the known name that an unknown one was probably meant to be, or what
// takes its place (gone.go).

import (
	"fmt"
	"strings"
)

// suggest returns the end of an error about an unknown name: what is used in its place, or
// the known word that is most like it, or nothing if none is.
func suggest(name string, words []string) string {
	if instead := gone[strings.ToLower(name)]; instead != "" {
		return ", which is gone: " + instead
	}
	if word := mostLike(name, words); word != "" {
		return fmt.Sprintf("; did you mean %q?", word)
	}
	return ""
}

// mostLike returns the word with the least edit distance to name, or "" if
// every word differs in more than a quarter of its bytes.
func mostLike(name string, words []string) string {
	name = strings.ToLower(name)
	best, least := "", 1+len(name)/4
	for _, word := range words {
		if d := editDistance(name, strings.ToLower(word)); d <= least && (best == "" || d < least) {
			best, least = word, d
		}
	}
	return best
}

// maxDistanceName is the maximum length of a name, in bytes, that editDistance
// compares: the file must not decide how large the table grows.
const maxDistanceName = 64

// editDistance returns how many bytes have to be inserted, removed or changed
// to turn a into b. Two adjacent bytes in the wrong order count once.
func editDistance(a, b string) int {
	if len(a) > maxDistanceName {
		return len(a)
	}
	// These are rows of the table of distances between the prefixes of a and b.
	var rowBefore, rowAbove []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		rowBefore, rowAbove, row = rowAbove, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			row[j] = min(rowAbove[j]+1, row[j-1]+1, rowAbove[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rowBefore[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
