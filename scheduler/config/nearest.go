package config

import "strings"

// nearest returns the word that name was most likely meant to be, or nothing
// if none is near.
func nearest(name string, words []string) string {
	name = strings.ToLower(name)
	best, least := "", 1+len(name)/4
	for _, word := range words {
		if d := distance(name, strings.ToLower(word)); d <= least && (best == "" || d < least) {
			best, least = word, d
		}
	}
	return best
}

// distance counts the bytes to insert, remove or change to come from a to b;
// two neighbours that changed places count once.
func distance(a, b string) int {
	// Rows of the table of distances between the fronts of a and of b; a
	// long name is far from everything.
	if len(a) > 64 {
		return len(a)
	}
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
