package main

// Where queries are answered: the file in POSTOFFICE that mailq reads.

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"zsched/internal/listen"
	"zsched/scheduler/config"
)

// mailqSockets names the sockets for queries in the log.
const mailqSockets = "mailq"

// answering records the addresses of the open sockets for queries in a file of POSTOFFICE, where
// mailq finds them even if scheduler.cf has changed since, or cannot be read. A socket that
// cannot be opened is not recorded: another process answers there.
type answering struct {
	file string
	log  zerolog.Logger

	mu    sync.Mutex
	open  []string // in the order in which they were opened; one address may be there for each family
	begun bool     // the file is kept
}

// changed notes that a socket has been opened or closed. The set of sockets calls it.
func (a *answering) changed(name string, at listen.Address, listener net.Listener, open bool) {
	if name != mailqSockets {
		return
	}
	text := config.Socket{Network: at.Network, Address: at.Address}.String()
	if at.Network == "" { // the service manager has opened it
		text = strings.ToUpper(listener.Addr().Network()) + ":" + listener.Addr().String()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if open {
		a.open = append(a.open, text)
	} else if i := slices.Index(a.open, text); i >= 0 {
		a.open = slices.Delete(a.open, i, i+1)
	}
	if a.begun {
		a.record()
	}
}

// begin records the sockets that are open now, and from now on each change. The file of an
// earlier scheduler is replaced even if none is open.
func (a *answering) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = true
	a.record()
}

// record writes the file. The caller holds mu.
func (a *answering) record() {
	if err := a.write(); err != nil {
		a.log.Error().Err(err).Msg("addresses of queries not recorded; mailq uses those of PARAMmailqsock")
	}
}

func (a *answering) write() error {
	if err := os.Remove(a.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(a.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	var text strings.Builder
	for i, address := range a.open {
		if slices.Index(a.open, address) == i {
			text.WriteString(address + "\n")
		}
	}
	_, err = f.WriteString(text.String())
	// ownUmask may have closed the file to others.
	return errors.Join(err, f.Chmod(0o644), f.Close())
}
