// Package certificate reads certificates for TLS, again when they have changed, and says when
// they end, in time to replace them. The programs warn of it when they check or read their
// configuration, and the scheduler has it in its metrics.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"
)

// warnBefore is how long before the end Warning begins.
const warnBefore = 14 * 24 * time.Hour

// Warning says that a certificate ends within two weeks, or has ended. It is "" for a
// later end, and for the zero time.
func Warning(end, now time.Time) string {
	day := end.UTC().Format(time.DateOnly)
	switch left := end.Sub(now); {
	case end.IsZero() || left > warnBefore:
		return ""
	case left > 0:
		return fmt.Sprintf("the certificate ends on %s, in %d days", day, int(left/(24*time.Hour)))
	}
	return fmt.Sprintf("the certificate has ended on %s: other hosts refuse it", day)
}

// End returns when a certificate or the first of its chain ends.
func End(c *tls.Certificate) (end time.Time, err error) {
	for _, der := range c.Certificate {
		parsed, err := x509.ParseCertificate(der)
		if err != nil {
			return end, err
		}
		if end.IsZero() || parsed.NotAfter.Before(end) {
			end = parsed.NotAfter
		}
	}
	return end, nil
}

// ReadEnd returns when the certificate in a PEM file or the first of its chain ends.
func ReadEnd(path string) (time.Time, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	var c tls.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c.Certificate = append(c.Certificate, block.Bytes)
		}
	}
	end, err := End(&c)
	if err == nil && end.IsZero() {
		err = fmt.Errorf("it has no certificate")
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the certificate %s: %w", path, err)
	}
	return end, nil
}

// sameFile reports whether a file is the one that it was, unchanged.
func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
