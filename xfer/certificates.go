package xfer

// The certificate with which a node takes connections: it is read again when one of its
// files has changed.

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"zsched/internal/certificate"
)

// Certificates are the Credentials of a node that takes connections. They are in memory,
// so that a connection from anybody costs no reading of files. Several goroutines may use
// them.
type Certificates struct {
	files  Credentials
	loaded func(end time.Time) // nil: nothing is called

	mu     sync.Mutex
	infos  []os.FileInfo // of the files when they were loaded
	config *tls.Config   // nil: nothing is loaded
}

// NewCertificates returns the certificates in files, which are read when they are
// needed. Each time that they are read, loaded is told when that of this node ends; nil:
// nothing is called.
func NewCertificates(files Credentials, loaded func(end time.Time)) *Certificates {
	return &Certificates{files: files, loaded: loaded}
}

// Load reads the certificates if they have changed.
func (c *Certificates) Load() error {
	_, err := c.current()
	return err
}

// current returns the configuration for the files as they are now. If they have changed
// and cannot be used, it returns the error: the authorities may have been replaced.
func (c *Certificates) current() (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var infos []os.FileInfo
	unchanged := c.config != nil
	for i, path := range []string{c.files.Cert, c.files.Key, c.files.CA} {
		info, err := os.Stat(path)
		if err != nil {
			unchanged = false // load returns the error
			break
		}
		infos = append(infos, info)
		unchanged = unchanged && certificate.SameFile(info, c.infos[i])
	}
	if unchanged {
		return c.config, nil
	}
	config, err := c.files.load()
	if err == nil && c.loaded != nil {
		if end, err := certificate.End(&config.Certificates[0]); err == nil {
			c.loaded(end)
		}
	}
	c.config, c.infos = config, infos
	if len(infos) < 3 {
		c.config = nil // a file has come since
	}
	return config, err
}
