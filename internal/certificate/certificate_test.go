package certificate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
)

func TestEndIsThatOfTheFirstInTheChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cert.pem")
	first := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	certificatetest.Write(t, path, first.AddDate(1, 0, 0), first, first.AddDate(2, 0, 0))
	if end, err := ReadEnd(path); err != nil || !end.Equal(first) {
		t.Errorf("%v, %v", end, err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEnd(path); err == nil {
		t.Error("a file without a certificate has an end")
	}
}

func TestWarningBeginsTwoWeeksBefore(t *testing.T) {
	end := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{
		15 * 24 * time.Hour: "", 14 * 24 * time.Hour: "ends on 2026-12-01, in 14 days", time.Hour: "in 0 days",
		0: "has ended on 2026-12-01", -time.Hour: "has ended",
	} {
		if got := Warning(end, end.Add(-left)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%v before: %q, want %q", left, got, want)
		}
	}
	if got := Warning(time.Time{}, end); got != "" {
		t.Errorf("without a certificate: %q", got)
	}
}
