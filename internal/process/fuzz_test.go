package process

import "testing"

// FuzzParseStat: the name of a program can have any bytes.
func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n"))
	f.Add([]byte("7 (\n) S"))
	f.Fuzz(func(t *testing.T, text []byte) { parseStat(1, text) })
}
