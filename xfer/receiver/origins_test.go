package receiver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestOriginsAreKeptUntilTheyAreConfirmed: and without a confirmation, as long as mail may
// wait at the sender, at least a week.
func TestOriginsAreKeptUntilTheyAreConfirmed(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		keep, age time.Duration
		confirmed bool
		kept      bool
	}{
		{0, 6 * day, false, true},
		{0, 8 * day, false, false},
		{day, 6 * day, false, true},
		{10 * day, 8 * day, false, true},
		{10 * day, 11 * day, false, false},
		{10 * day, day, true, false},
		{UntilConfirmed, 3000 * day, false, true},
		{UntilConfirmed, day, true, false},
	} {
		office := t.TempDir()
		for _, dir := range []string{"transport/.xfer", "queue"} {
			if err := os.MkdirAll(filepath.Join(office, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		text := fmt.Sprintf("T %d token mx1/S1A 58,109 mx1/S2B 58\nT 1 torn mx1/S3C", time.Now().Add(-c.age).Unix())
		if c.confirmed {
			text = fmt.Sprintf("T %d token mx1/S1A 58,109 mx1/S2B 58\nD mx1/S1A 58,109\nD mx1/S2B 58\n", time.Now().Add(-c.age).Unix())
		}
		if err := os.WriteFile(filepath.Join(office, "transport/.xfer/origins"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenStore(Options{Postoffice: office, Keep: c.keep})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if c.kept {
			want = 3
		}
		if got := len(s.origins.taken); got != want {
			t.Errorf("kept %v, %v old, confirmed %v: %d recipients are remembered, want %d", c.keep, c.age, c.confirmed, got, want)
		}
		s.Close()
	}
}
