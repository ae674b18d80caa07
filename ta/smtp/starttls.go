// This file holds STARTTLS: the handshake, and the check of the certificate.

package smtp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// startTLS does STARTTLS as the policy demands.
func (o *opener) startTLS(s *session, policy Policy) *openError {
	required := policy.Level > TLSMay
	if policy.Level == TLSNone || !s.ext.starttls {
		if required {
			return s.violates("TLS is required but not offered")
		}
		return nil
	}
	r, err := s.command(o.timeouts.Command, "STARTTLS")
	switch {
	case err != nil:
		failed := s.lost("STARTTLS", err)
		failed.retryPlain = !required
		return failed
	case r.Code != 220 && required:
		return s.violates(fmt.Sprintf("TLS is required but refused: %d %s", r.Code, r.Text()))
	case r.Code != 220:
		return nil
	case s.r.Buffered() > 0:
		// An attacker may have injected plain text that would pass for the server's.
		return s.violates("there was more data after the reply to STARTTLS")
	}
	client := tls.Client(s.nc, o.tls.config(policy, s.target))
	if err := s.nc.SetDeadline(time.Now().Add(o.timeouts.Command)); err != nil {
		return s.lost("STARTTLS", err)
	}
	if err := client.Handshake(); err != nil {
		s.trace(theirs, "(TLS: "+why(err)+")")
		s.close() // without QUIT, which the server might take for part of the handshake
		failed := s.violates("TLS: " + why(err))
		failed.retryPlain = !required
		return failed
	}
	_ = s.nc.SetDeadline(time.Time{})
	state := client.ConnectionState()
	s.trace(ours, fmt.Sprintf("(%s, %s)", tls.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)))
	s.attach(client)
	s.tls = true
	return o.hello(s)
}

// config returns the configuration of one connection. It replaces the library's
// check of the certificate, because the certificate may be for one of several
// names, and below TLSVerify for any name.
func (t *TLS) config(p Policy, to *target) *tls.Config {
	c := t.base.Clone()
	c.ServerName = strings.Trim(to.name, "[]")
	c.InsecureSkipVerify = true
	if p.Level < TLSVerify {
		return c
	}
	names := strings.Fields(p.Names)
	switch {
	case len(names) > 0:
	case p.Level == TLSSecure:
		names = []string{p.Domain}
	default:
		names = []string{c.ServerName}
	}
	c.VerifyConnection = func(state tls.ConnectionState) error {
		return verifyForOne(state.PeerCertificates, names, c.RootCAs)
	}
	return c
}

// verifyForOne verifies that a certificate chain is valid for one of several names.
// The error is that of the last name.
func verifyForOne(chain []*x509.Certificate, names []string, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	var err error
	for _, name := range names {
		_, err = chain[0].Verify(x509.VerifyOptions{DNSName: strings.Trim(name, "[]"), Roots: roots, Intermediates: intermediates})
		if err == nil {
			return nil
		}
	}
	return err
}
