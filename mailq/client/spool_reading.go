package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
)

// Postoffice is the directory $POSTOFFICE as the client reads it: for the
// recipients and identities of messages, which are not in the protocol. Most
// users may not read all of it.
type Postoffice struct {
	Dir string
}

// SpoolFile is one message of a postoffice.
type SpoolFile struct {
	*ctlfile.File
	UID     int       // owner of the message file, who sent it
	Control int64     // size of the control file in bytes
	Size    int64     // size of the message file in bytes, headers as received
	ModTime time.Time // of the message file
}

// Read reads the control file of a path that a server has named, relative to
// transport/, and looks at the message file. What is no regular file inside
// the directory is not read.
func (p *Postoffice) Read(path string) (*SpoolFile, error) {
	info, err := p.Stat(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Join(p.Dir, "transport"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, min(info.Control, ctlfile.MaxSize)))
	if err != nil {
		return nil, err
	}
	if info.File, err = ctlfile.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return info, nil
}

// Stat is Read without the contents.
func (p *Postoffice) Stat(path string) (*SpoolFile, error) {
	control, err := p.stat("transport", path)
	if err != nil {
		return nil, err
	}
	message, err := p.stat("queue", path)
	if err != nil {
		return nil, err
	}
	s := &SpoolFile{UID: -1, Control: control.Size(), Size: message.Size(), ModTime: message.ModTime()}
	if sys, ok := message.Sys().(*syscall.Stat_t); ok {
		s.UID = int(sys.Uid)
	}
	return s, nil
}

func (p *Postoffice) stat(directory, path string) (fs.FileInfo, error) {
	root, err := os.OpenRoot(filepath.Join(p.Dir, directory))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s/%s is not a regular file", directory, path)
	}
	return info, err
}

// Recipient is the address of the recipient at an offset, if it is one of the
// thread: a server elsewhere may number its messages as this postoffice does.
func (s *SpoolFile) Recipient(name mailq.Name, offset int64) (user string, ok bool) {
	i := s.Find(offset)
	if i < 0 {
		return "", false
	}
	r := &s.Recipients[i]
	return r.User, strings.EqualFold(r.Channel, name.Channel) && strings.EqualFold(r.Host, name.Host)
}

// notThere reports whether a file is missing, which needs no words.
func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }
