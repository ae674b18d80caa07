// Package certificate says whether a certificate can be used, and for how long.
package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// soon is how long before its end a certificate is warned of.
const soon = 14 * 24 * time.Hour

// Check reads a certificate with its chain, and its key, from two PEM files. An error says that
// they cannot be used, or that a certificate of the chain has expired. The warning says that one
// expires soon; "": none does.
func Check(path, key string, now time.Time) (warning string, err error) {
	pair, err := tls.LoadX509KeyPair(path, key)
	if err != nil {
		return "", fmt.Errorf("certificate %s: %w", path, err)
	}
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return "", fmt.Errorf("certificate %s: %w", path, err)
		}
		end := c.NotAfter.UTC().Format(time.DateTime + " UTC")
		if now.After(c.NotAfter) {
			return "", fmt.Errorf("certificate %s: it has expired, at %s", path, end)
		}
		if now.After(c.NotAfter.Add(-soon)) {
			warning = fmt.Sprintf("certificate %s: it expires soon, at %s", path, end)
		}
	}
	return warning, nil
}
