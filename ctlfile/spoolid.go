package ctlfile

import "time"

// SpoolID is the message identity of logs.
func SpoolID(n uint64, mtime time.Time) string { return "" }

// Number is the decimal number at the front of a base name.
func Number(name string) (n uint64, ok bool) { return 0, false }

// HashDir is the directory prefix of message n: "", "I/" or "B/I/".
func HashDir(n uint64, levels int) string { return "" }
