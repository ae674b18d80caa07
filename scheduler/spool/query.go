package spool

// Queries: finding and showing messages in any place.

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/pattern"
	"zsched/internal/postoffice"
)

// Query is what Find looks for. A message matches if every field that is not ""
// matches. In patterns, '*' stands for any text and '?' for one byte, and ASCII
// letters match in either case.
type Query struct {
	// Places to look in, nil for all of them.
	Places []Place
	// Recipient is a pattern for the user of any recipient, done or not, or for an
	// address that the recipient had before an alias.
	Recipient string
	// Sender is a pattern for the user of any sender; "<>" is the null sender.
	Sender string
	// LogID is a pattern for the l line. Angle brackets around it, and around
	// addresses, are ignored.
	LogID string
	// SpoolID is a spoolid, or the number or path of a control file.
	SpoolID string
}

// Find returns the messages that match, in no order. It reads directories and
// control files as it goes, with at most one control file in memory, and uses no
// worker. A message that is moved meanwhile may come twice or not at all. A
// malformed message has no recipient and no sender and is found by the other
// fields alone. A message that cannot be read comes as an error, after which Find
// continues. When ctx is done, its error comes last.
func (s *Spool) Find(ctx context.Context, what Query) iter.Seq2[*Stored, error] {
	return func(yield func(*Stored, error) bool) {
		places := what.Places
		if places == nil {
			places = []Place{Queue, Hold, Postman, Corrupt}
		}
		for _, p := range places {
			if !s.findIn(ctx, p, &what, yield) {
				return
			}
		}
	}
}

// findIn looks in one place. It returns false if the caller wants no more.
func (s *Spool) findIn(ctx context.Context, p Place, what *Query, yield func(*Stored, error) bool) bool {
	h, err := s.openReader(p)
	if err != nil {
		return err == errNoPlace || yield(nil, err) && err != errClosed
	}
	defer h.close()
	going := true
	visit := func(n Name) bool {
		m, err := h.read(n)
		switch {
		case err != nil:
			going = yield(nil, err)
		case m != nil && what.fits(m):
			going = yield(m, nil)
		}
		return going
	}
	if what.SpoolID != "" {
		id, ok := parseIdentity(what.SpoolID)
		if !ok {
			return false
		}
		n, err := h.find(ctx, id)
		if n.ID != 0 {
			return visit(n)
		}
		return (err == nil || yield(nil, err)) && ctx.Err() == nil
	}
	err = h.walk(ctx, visit)
	return going && (err == nil || yield(nil, err)) && ctx.Err() == nil
}

func (w *Query) fits(m *Stored) bool {
	if m.File == nil {
		return w.Recipient == "" && w.Sender == "" && w.LogID == ""
	}
	return m.File.Name != "" && // not of a trigger
		(w.LogID == "" || pattern.Wildcard(bare(w.LogID), bare(m.File.LogID))) &&
		(w.Recipient == "" || w.fitsRecipient(m.File)) &&
		(w.Sender == "" || w.fitsSender(m.File))
}

func (w *Query) fitsRecipient(f *ctlfile.File) bool {
	wanted := bare(w.Recipient)
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if pattern.Wildcard(wanted, bare(r.User)) ||
			slices.ContainsFunc(r.Originals(), func(address string) bool { return pattern.Wildcard(wanted, bare(address)) }) {
			return true
		}
	}
	return false
}

func (w *Query) fitsSender(f *ctlfile.File) bool {
	wanted := bare(w.Sender)
	for i := range f.Senders {
		user := bare(f.Senders[i].User)
		if f.Senders[i].Channel == "error" {
			user = ""
		}
		if pattern.Wildcard(wanted, user) {
			return true
		}
	}
	return false
}

// bare removes the angle brackets around an address or a Message-Id.
func bare(s string) string {
	if inner, ok := strings.CutPrefix(s, "<"); ok {
		if inner, ok := strings.CutSuffix(inner, ">"); ok {
			return inner
		}
	}
	return s
}

// Stored is a message as it is on disk.
type Stored struct {
	Place Place
	Name  Name
	// File is nil if the control file is malformed; Reason says why. Under
	// corrupt/, Reason says why the message was moved there.
	File       *ctlfile.File
	Reason     string
	Control    int64     // bytes of the control file
	ChangedAt  time.Time // its ctime
	Size       int64     // bytes of the message file, -1 when there is none
	ModifiedAt time.Time // mtime of the message file; zero when there is none
	Owner      uint32    // uid that owns the message file
}

// SpoolID returns the message's identity in logs.
func (m *Stored) SpoolID() string { return ctlfile.SpoolID(m.Name.ID, m.ModifiedAt) }

// Show reads one message in any place. id is the path of its control file below
// transport/, its number or its spoolid. It runs in the caller's goroutine and
// uses no worker.
func (s *Spool) Show(ctx context.Context, id string) (m *Stored, found bool, err error) {
	what, ok := parseIdentity(id)
	if !ok {
		return nil, false, nil
	}
	for p := range placeCount {
		if m, err = s.show(ctx, p, what); m != nil || err != nil {
			return m, m != nil, err
		}
	}
	return nil, false, nil
}

func (s *Spool) show(ctx context.Context, p Place, id identity) (*Stored, error) {
	h, err := s.openReader(p)
	if err == errNoPlace {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer h.close()
	n, err := h.find(ctx, id)
	if err != nil || n.ID == 0 {
		return nil, err
	}
	return h.read(n)
}

// Sizes returns a function for the bytes of the message file beside a control file,
// which is named by its path below transport/; 0 if there is none. It reads no
// control file. The caller calls done when it has asked for the last one.
func (s *Spool) Sizes() (size func(path string) int64, done func(), err error) {
	h, err := s.openReader(Queue)
	if err != nil {
		return nil, nil, err
	}
	return func(path string) int64 {
		var st unix.Stat_t
		if postoffice.Stat(h.queue, path, &st) != nil || !postoffice.IsRegular(&st) {
			return 0
		}
		return st.Size
	}, h.close, nil
}

// errNoPlace says that the directories of a place are missing, so that it has no
// messages.
var errNoPlace = errors.New("the place is missing")

// errClosed says that the spool was closed before a query.
var errClosed = errors.New("the spool was closed")

// queueReader reads one place for a query, with descriptors of its own.
type queueReader struct {
	place Place
	pair
	buf []byte
}

func (s *Spool) openReader(p Place) (*queueReader, error) {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return nil, errClosed
	}
	transport, err := postoffice.OpenDir(s.office, p.dir()+"transport")
	if err == unix.ENOENT && s.pair(p).transport < 0 {
		return nil, errNoPlace
	}
	if err != nil {
		return nil, fmt.Errorf("opening %stransport: %w", p.dir(), err)
	}
	queue, err := postoffice.OpenDir(s.office, p.dir()+"queue")
	if err != nil {
		postoffice.Close(transport)
		return nil, fmt.Errorf("opening %squeue: %w", p.dir(), err)
	}
	return &queueReader{place: p, pair: pair{transport, queue}}, nil
}

// read returns one message, or nil if it does not exist.
func (h *queueReader) read(n Name) (*Stored, error) {
	m := &Stored{Place: h.place, Name: n, Size: -1}
	d, err := readControl(postoffice.Control{}, h.transport, n.Path, unix.O_RDONLY, &h.buf)
	var bad *malformed
	switch {
	case errors.Is(err, errGone):
		return nil, nil
	case errors.As(err, &bad):
		m.Reason = bad.reason
	case err != nil:
		return nil, fmt.Errorf("reading %stransport/%s: %w", h.place.dir(), n.Path, err)
	}
	m.File, m.Control, m.ChangedAt = d.file, d.st.Size, time.Unix(d.st.Ctim.Unix())
	var st unix.Stat_t
	if postoffice.Stat(h.queue, n.Path, &st) == nil && postoffice.IsRegular(&st) {
		m.Size, m.ModifiedAt, m.Owner = st.Size, time.Unix(st.Mtim.Unix()), st.Uid
	}
	if h.place == Corrupt {
		if reason := h.reason(n.Path); reason != "" {
			m.Reason = reason
		}
	}
	return m, nil
}

// reasonBytes bounds what is read of a .reason file.
const reasonBytes = 4096

// reason returns why a message is in quarantine: the second line of the file
// beside its control file.
func (h *queueReader) reason(path string) string {
	fd, err := postoffice.OpenAt(h.transport, path+reasonSuffix, unix.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer postoffice.Close(fd)
	text, err := postoffice.ReadFull(fd, reasonBytes, nil)
	if err != nil {
		return ""
	}
	_, reason, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(reason, "\n")
}

// walk visits the names of control files, in no order, until visit returns false
// or ctx is done. It skips a directory that it cannot read, and returns the
// error.
func (h *queueReader) walk(ctx context.Context, visit func(Name) bool) error {
	w := walk{h: h, ctx: ctx, visit: visit}
	w.read("")
	return errors.Join(w.errs...)
}

type walk struct {
	h     *queueReader
	ctx   context.Context
	visit func(Name) bool
	errs  []error
}

// read visits the names below a directory. It returns false when the walk is
// over.
func (w *walk) read(prefix string) bool {
	fd, err := postoffice.OpenDir(w.h.transport, "./"+prefix)
	if err != nil {
		return w.fail("opening", prefix, err)
	}
	defer postoffice.Close(fd)
	buf := make([]byte, direntBytes)
	for {
		read, err := getdents(fd, buf)
		if err != nil {
			return w.fail("reading", prefix, err)
		}
		if len(read) == 0 {
			return true
		}
		for e := range read.all() {
			if !w.entry(fd, prefix, e) {
				return false
			}
		}
	}
}

func (w *walk) entry(fd int, prefix string, e dirent) bool {
	if err := w.ctx.Err(); err != nil {
		w.errs = append(w.errs, err)
		return false
	}
	n, ok := named(fd, prefix, e)
	switch {
	case ok && !strings.HasSuffix(n.Path, reasonSuffix):
		return w.visit(n)
	case !ok && len(prefix) < 2*maxDepth && isHashDir(e.name) && isKind(fd, e, unix.DT_DIR):
		return w.read(prefix + string(e.name) + "/")
	}
	return true
}

// fail keeps an error, unless the directory was removed.
func (w *walk) fail(doing, prefix string, err error) bool {
	if err != unix.ENOENT {
		w.errs = append(w.errs, fmt.Errorf("%s %stransport/%s: %w", doing, w.h.place.dir(), prefix, err))
	}
	return true
}

// identity says which message a person means.
type identity struct {
	path    string // "" when only the number is known
	number  uint64
	spoolID string // "" when that is not known
}

// parseIdentity parses a path below transport/, a number or a spoolid.
func parseIdentity(id string) (identity, bool) {
	if rest, ok := strings.CutPrefix(id, "S"); ok && !strings.HasPrefix(rest, "/") {
		n, ok := ctlfile.Number(rest)
		return identity{number: n, spoolID: id}, ok
	}
	prefix, base := split(id)
	n, ok := numbered(base)
	for i := 0; i < len(prefix); i += 2 {
		ok = ok && isHashDir(prefix[i:i+1]) && prefix[i+1] == '/'
	}
	if !ok || len(prefix) > 2*maxDepth {
		return identity{}, false
	}
	if prefix == "" && base == strconv.FormatUint(n, 10) {
		return identity{number: n}, true
	}
	return identity{path: id, number: n}, true
}

// find returns the control file with this identity; its ID is 0 if there is none.
// It tries the names that a router gives before it walks through all names.
func (h *queueReader) find(ctx context.Context, id identity) (Name, error) {
	if id.path != "" {
		if n := (Name{id.path, id.number}); h.is(n, id) {
			return n, nil
		}
		return Name{}, nil
	}
	base := strconv.FormatUint(id.number, 10)
	for levels := range maxDepth + 1 {
		n := Name{ctlfile.HashDir(id.number, levels) + base, id.number}
		if h.is(n, identity{}) {
			if h.is(n, id) {
				return n, nil
			}
			// Another message has the number now.
			return Name{}, nil
		}
	}
	var found Name
	err := h.walk(ctx, func(n Name) bool {
		if n.ID == id.number && h.is(n, id) {
			found = n
		}
		return found.ID == 0
	})
	return found, err
}

// is reports whether there is such a control file, and whether its message has
// the spoolid that is asked for.
func (h *queueReader) is(n Name, id identity) bool {
	var st unix.Stat_t
	if postoffice.Stat(h.transport, n.Path, &st) != nil || !postoffice.IsRegular(&st) {
		return false
	}
	if id.spoolID == "" {
		return true
	}
	return postoffice.Stat(h.queue, n.Path, &st) == nil && ctlfile.SpoolID(n.ID, time.Unix(st.Mtim.Unix())) == id.spoolID
}

// locate finds a message in one place; its ID is 0 if it is not there.
func (s *Spool) locate(ctx context.Context, p Place, id identity) (Name, error) {
	h, err := s.openReader(p)
	if err == errNoPlace {
		return Name{}, nil
	}
	if err != nil {
		return Name{}, err
	}
	defer h.close()
	return h.find(ctx, id)
}
