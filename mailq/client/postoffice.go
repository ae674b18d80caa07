package client

// The postoffice: control files that are read where the server names only numbers.

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/process"
	"zsched/mailq"
)

// Postoffice is the directory $POSTOFFICE. The client reads control files there
// for what lists do not have: addresses, Message-Ids and sizes. Most users are not
// permitted to read all of them.
type Postoffice struct {
	Dir string

	// recent knows the control files of messages to many hosts, each of which is read for
	// every thread.
	recent ctlfile.Recent
}

// SpoolFile is one message of a postoffice.
type SpoolFile struct {
	*ctlfile.File
	Control int64     // size of the control file in bytes
	Size    int64     // size of the message file in bytes
	ModTime time.Time // of the message file
}

// Identity is the same for two paths of one directory; "-": it is not known.
func (p *Postoffice) Identity() string { return process.Identity(p.Dir) }

// Read reads the control file at a path that a server has named, relative to
// transport/, and the status of the message file. It reads nothing but regular
// files inside the directory. Of a large control file it may return only the recipients at the
// host.
func (p *Postoffice) Read(path, host string) (*SpoolFile, error) {
	message, err := p.stat("queue", path)
	if err != nil {
		return nil, err
	}
	if _, err := p.stat("transport", path); err != nil {
		return nil, err
	}
	f, err := os.OpenInRoot(filepath.Join(p.Dir, "transport"), path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	control, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s := &SpoolFile{Control: control.Size(), Size: message.Size(), ModTime: message.ModTime()}
	if s.File, err = p.recent.Read(int(f.Fd()), control.Size(), host); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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

// Recipient returns the address of the recipient at an offset. ok is false if it is
// not a recipient of the thread: then the file is that of another message.
func (s *SpoolFile) Recipient(name mailq.Name, offset int64) (user string, ok bool) {
	i := s.Find(offset)
	if i < 0 {
		return "", false
	}
	r := &s.Recipients[i]
	return r.User, strings.EqualFold(r.Channel, name.Channel) && strings.EqualFold(r.Host, name.Host)
}
