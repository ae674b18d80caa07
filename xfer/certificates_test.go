package xfer

import (
	"path/filepath"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
)

// The end of a certificate is told each time that its file is read, which is when it has
// changed.
func TestEndIsToldWhenTheCertificateIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cert.pem")
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	certificatetest.Write(t, path, end)
	var told []time.Time
	c := NewCertificates(Credentials{Cert: path, Key: path, CA: path}, func(end time.Time) { told = append(told, end) })
	for i := range 3 {
		if i == 2 {
			certificatetest.Write(t, path, end, end.AddDate(0, 0, -1))
		}
		if err := c.Load(); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 2 || !told[0].Equal(end) || !told[1].Equal(end.AddDate(0, 0, -1)) {
		t.Errorf("told %v", told)
	}
}
