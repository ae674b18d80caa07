package smtpserver

// The certificate of a server.

import (
	"crypto/tls"
	"fmt"
)

// TLSConfig returns the settings for TLS of a server with the certificate and key in two PEM
// files. They are read for each handshake, so that a new certificate needs no signal.
func TLSConfig(path, key string) (*tls.Config, error) {
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(path, key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	// Some senders cannot resume a session with the tickets of Go's TLS library.
	return &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true, GetCertificate: load}, nil
}
