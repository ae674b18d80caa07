package spool

import "testing"

// FuzzHoldRecord: any record is read, and what is written again is read alike.
func FuzzHoldRecord(f *testing.F) {
	f.Add("since 2026-11-22T08:00:00Z\nuntil 2026-11-23T08:00:00Z\nby root uid 0\nbecause they moved\nmessage S12AbmAA\nthread smtp a.example\n")
	f.Add("since 10000-01-01T00:00:00Z\nthread smtp\nthread \"a b\" (x)\nby a\rb\x00\nmessage \nsince\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		first := parseRecord(7, text)
		printed, err := first.text()
		check(t, err)
		again := parseRecord(7, string(printed))
		if twice, err := again.text(); err != nil || string(twice) != string(printed) {
			t.Errorf("%q is written as %q, and then as %q", text, printed, twice)
		}
	})
}
