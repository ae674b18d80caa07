package xfer

// The certificate with which a node takes connections: it is read again when one of its
// files has changed.

import (
	"crypto/tls"
	"os"
	"sync"
)

// Certificates are the Credentials of a node that takes connections. They are in memory,
// so that a connection from anybody costs no reading of files. Several goroutines may use
// them.
type Certificates struct {
	files Credentials

	mu     sync.Mutex
	infos  []os.FileInfo // of the files when they were loaded
	config *tls.Config   // nil: nothing is loaded
}

// NewCertificates returns the certificates in files, which are read when they are
// needed.
func NewCertificates(files Credentials) *Certificates { return &Certificates{files: files} }

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
		unchanged = unchanged && sameFile(info, c.infos[i])
	}
	if unchanged {
		return c.config, nil
	}
	config, err := c.files.load()
	c.config, c.infos = config, infos
	if len(infos) < 3 {
		c.config = nil // a file has come since
	}
	return config, err
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
