package certificate

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
)

func TestEndsOfTheWholeChainCount(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.AddDate(0, 0, n) }
	for want, ends := range map[string][]time.Time{
		"": {day(15), day(300)},
		"certificate P: it expires soon, at 2026-12-11 12:00:00 UTC": {day(300), day(13)},
		"certificate P: it has expired, at 2026-11-27 12:00:00 UTC":  {day(13), day(-1)},
		"certificate P: tls: failed to find certificate PEM data":    nil,
	} {
		path := filepath.Join(t.TempDir(), "pem")
		certificatetest.Write(t, path, ends...)
		said, err := Check(path, path, now)
		if err != nil {
			said = err.Error()
		}
		if said = strings.ReplaceAll(said, path, "P"); want == "" && said != "" || !strings.HasPrefix(said, want) {
			t.Errorf("%v: %q, want %q", ends, said, want)
		}
	}
}
