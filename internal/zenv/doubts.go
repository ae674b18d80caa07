package zenv

// Doubts: lines of a zmailer.conf that are probably mistakes (scheduler --check).

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// others are the names that programs look up and that have no default.
var others = []string{"BINDADDR", "HOSTNAME", "MAILBOX", "MAILSERVER", "ORGDOMAIN", "PATH", "ROUTERDIRHASH",
	"ROUTERMAXSIZE", "ROUTERNOTIFY", "ROUTERTRUSTED", "SCHEDULERDIRHASH", "SYSLOGFLG", "ZCONFIG"}

// Doubts returns what is probably a mistake, each with its place: a name that is almost one of
// ours, and a line that sets one of ours but for a blank. The other names may be for other
// programs. A name that another line sets was not forgotten.
func (f *File) Doubts() (doubts []string) {
	if f == nil {
		return nil
	}
	data, err := readFile(f.path)
	if err != nil {
		return []string{err.Error()}
	}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		before, _, found := strings.Cut(line, "=")
		words := strings.Fields(before)
		if !found || len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		name := words[len(words)-1]
		meant := nearest(name)
		if _, set := f.set[meant]; set || meant == "" {
			continue
		}
		text := fmt.Sprintf("no program uses %.100q; perhaps %s is meant", name, meant)
		if name == meant {
			text = fmt.Sprintf("the line does not set %s: the name is to begin in the first column, with \"=\" right after it", name)
		}
		doubts = append(doubts, fmt.Sprintf("%s:%d: %s", f.path, number, text))
	}
	return doubts
}

// nearest returns the name of ours that is meant by a name: one that differs in case or in a letter,
// or in two if it is long. "" is none.
func nearest(name string) (meant string) {
	name, least := strings.ToUpper(name), 2
	if len(name) >= 8 {
		least = 3
	}
	for _, known := range slices.Concat(slices.Sorted(maps.Keys(defaults)), others) {
		if d := distance(name, known); d < least {
			meant, least = known, d
		}
	}
	return meant
}

// distance returns how many letters have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the letters of a so far
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
