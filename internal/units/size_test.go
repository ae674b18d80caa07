package units

import (
	"math"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "100": 100, "3k": 3 << 10, "3K": 3 << 10, "50M": 50 << 20, "2g": 2 << 30, "8589934591G": math.MaxInt64 - (1<<30 - 1),
		"9223372036854775807": math.MaxInt64,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "k", "-1", "+1", "1kk", "1 k", "1T", "1.5M", "0x10", "1_000", "8589934592G", "549755813887G", "9223372036854775808",
	} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
