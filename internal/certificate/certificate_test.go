package certificate

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
)

func TestWarningBeginsTwoWeeksBeforeTheFirstOfTheChainEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cert.pem")
	end := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	certificatetest.Write(t, path, end.AddDate(1, 0, 0), end, end.AddDate(2, 0, 0))
	for left, want := range map[time.Duration]string{
		15 * 24 * time.Hour: "", 14 * 24 * time.Hour: "ends on 2026-12-01", time.Hour: "ends on 2026-12-01",
		0: "has ended on 2026-12-01", -time.Hour: "has ended",
	} {
		err := Check(path, end.Add(-left))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v before: %v, want %q", left, err, want)
		}
	}
}

func TestOnlyAFileThatIsMissingIsNoError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cert.pem")
	if err := Check(path, time.Now()); err != nil {
		t.Error(err)
	}
	certificatetest.Write(t, path)
	if Check(path, time.Now()) == nil {
		t.Error("a file without a certificate is no error")
	}
}
