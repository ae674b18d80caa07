package spool

import (
	"fmt"
	"math/rand/v2"
)

// probeName is a dot file, so that nobody takes it for a control file.
const probeName = ".scheduler.probe"

// probeBytes is what a probe writes: more than may fit where no outcome does,
// into the rest of a block or beside the file's inode, and room for some
// hundred outcomes, lest mail be fed again for the first block that is free.
const probeBytes = 64 << 10

// Probe tries whether transport/ can be written, and files be made and removed
// again where an error has said ErrShut. Answered by Probed.
func (s *Spool) Probe() {
	s.edit("", func() { s.outbox.add([]Result{Probed{s.probe()}}) })
}

func (s *Spool) probe() error {
	transport := folder{at: s.pairs[Queue].transport}
	if err := transport.try(incompressible(probeBytes), true); err != nil {
		return fmt.Errorf("writing transport/%s: %w", probeName, err)
	}
	return s.shut.probe()
}

// incompressible returns n bytes that take n bytes on any file system.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}
