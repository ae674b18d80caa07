package server

import (
	"strconv"
	"strings"
	"testing"
)

func TestCountersAreFortyTwoColumns(t *testing.T) {
	seen := make(map[string]bool)
	for name := range strings.FieldsSeq(counterNames) {
		if line := counterLine(name, 7); len(line) != 42 || seen[name] {
			t.Errorf("%q: %d columns, seen %v", line, len(line), seen[name])
		}
		seen[name] = true
	}
	if len(seen) != 252 {
		t.Errorf("%d counters", len(seen))
	}
	for _, line := range []string{"Time_now                        1795233169", "SYS.SpoolFreeSpace-kB-G                  0", "SYS.Load-Avg-1-min-G                  0.45"} {
		f := strings.Fields(line)
		n, _ := strconv.ParseFloat(f[1], 64)
		if got := counterLine(f[0], n); got != line {
			t.Errorf("%q, want %q", got, line)
		}
	}
}
