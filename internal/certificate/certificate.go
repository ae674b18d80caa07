// Package certificate says when certificates for TLS end, in time to replace them.
package certificate

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// warnBefore is how long before the end Check begins to report it.
const warnBefore = 14 * 24 * time.Hour

// End returns when the certificate in a PEM file, or the first of its chain, ends.
func End(path string) (end time.Time, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return end, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return end, fmt.Errorf("%s: %w", path, err)
		}
		if end.IsZero() || c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	if end.IsZero() {
		return end, fmt.Errorf("%s: no certificate", path)
	}
	return end, nil
}

// Check returns an error if the certificate in a PEM file cannot be read, ends within two
// weeks or has ended. A file that does not exist is not an error.
func Check(path string, now time.Time) error {
	end, err := End(path)
	switch day := end.UTC().Format(time.DateOnly); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !end.After(now):
		return fmt.Errorf("%s: the certificate has ended on %s: other hosts refuse it", path, day)
	case end.Sub(now) <= warnBefore:
		return fmt.Errorf("%s: the certificate ends on %s", path, day)
	}
	return nil
}
