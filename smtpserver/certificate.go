package smtpserver

// The certificate of a server: one from files, or one that it makes itself.

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"os"
	"sync"
	"time"
)

// TLSConfig returns the settings for TLS of a server with the certificate and key in two PEM
// files, which are read again when the certificate has changed. Without files
// it makes a certificate for the host, which no client can verify.
func TLSConfig(path, key, hostname string) (*tls.Config, error) {
	// Some senders cannot resume a session with the tickets of Go's TLS library.
	config := &tls.Config{MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}
	if path == "" {
		made, err := selfSigned(hostname)
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{made}
		return config, nil
	}
	f := &pair{path: path, key: key}
	if _, err := f.current(); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current() }
	return config, nil
}

// pair is a certificate with its key on disk.
type pair struct {
	path, key string

	mu     sync.Mutex
	info   os.FileInfo // of the certificate that is loaded
	loaded *tls.Certificate
}

// current returns the certificate on disk, or the last that could be read.
func (f *pair) current() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.loaded != nil && os.SameFile(info, f.info) && info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime()) {
		return f.loaded, nil
	}
	var read tls.Certificate
	if err == nil {
		read, err = tls.LoadX509KeyPair(f.path, f.key)
	}
	switch {
	case err == nil:
		f.loaded, f.info = &read, info
	case f.loaded == nil:
		return nil, err
	}
	return f.loaded, nil
}

func selfSigned(hostname string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: hostname}, DNSNames: []string{hostname},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
