package spool

// The queue reader finds and reads the messages of one place, for queries.

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

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
	if m.File == nil || m.File.Name != "" { // not of a trigger
		m.ModifiedAt = time.Unix(d.st.Mtim.Unix())
	}
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

// identity is how a person names a message.
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
	var message unix.Stat_t
	switch err := postoffice.Stat(h.queue, n.Path, &message); err {
	case nil:
		st = message
	case unix.ENOENT: // the spoolid has the time of the control file
	default:
		return false
	}
	return ctlfile.SpoolID(n.ID, time.Unix(st.Mtim.Unix())) == id.spoolID
}
