package spool

// Queries: messages as they are on disk. They run in the caller's goroutine and use no worker.

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

// Files reads messages, hold records and the names that were refused. It may be used until the
// spool is closed.
type Files struct {
	*Holds
	*refusals
	places *places
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
	Size       int64     // bytes of the message file, -1 when there is none
	ModifiedAt time.Time // mtime of the message file; of the control file when there is none
}

// Path returns the path of its control file below transport/; under hold/, it begins with "hold/".
func (m *Stored) Path() string {
	if m.Place == Hold {
		return underHold + m.Name.Path
	}
	return m.Name.Path
}

// SpoolID returns the message's identity in logs.
func (m *Stored) SpoolID() string { return ctlfile.SpoolID(m.Name.ID, m.ModifiedAt) }

// eachName visits the control files in a place until visit returns false or ctx is done. It
// skips a directory that it cannot read, and returns the error.
func (at *places) eachName(ctx context.Context, p Place, visit func(Name) bool) (err error) {
	w := &walker{visit: func(n Name) bool {
		return ctx.Err() == nil && (strings.HasSuffix(n.Path, reasonSuffix) || visit(n))
	}, fail: func(doing, prefix string, failed error) {
		err = errors.Join(err, fmt.Errorf("%s %stransport/%s: %w", doing, p.dir(), prefix, failed))
	}}
	at.walkBelow(p.dir()+"transport", w)
	return errors.Join(err, ctx.Err())
}

// readStored returns one message, or nil if it does not exist.
func (at *places) readStored(p Place, n Name) (*Stored, error) {
	in := at.pairs[p]
	m := &Stored{Place: p, Name: n, Size: -1}
	var buf []byte
	d, err := at.readControl(postoffice.Control{}, in.transport, n.Path, unix.O_RDONLY, &buf)
	defer d.close()
	var bad *malformed
	switch {
	case errors.Is(err, errGone):
		return nil, nil
	case errors.As(err, &bad):
		m.Reason = bad.reason
	case err != nil:
		return nil, fmt.Errorf("reading %stransport/%s: %w", p.dir(), n.Path, err)
	}
	m.File, m.Control = d.file, d.st.Size
	if m.File == nil || m.File.Name != "" { // not of a trigger
		m.ModifiedAt = time.Unix(d.st.Mtim.Unix())
	}
	var st unix.Stat_t
	if postoffice.Stat(in.queue, n.Path, &st) == nil && postoffice.IsRegular(&st) {
		m.Size, m.ModifiedAt = st.Size, time.Unix(st.Mtim.Unix())
	}
	if p == Corrupt {
		// The second line of the file beside the control file.
		text, _ := postoffice.ReadFile(in.transport, n.Path+reasonSuffix, reasonBytes)
		if _, reason, found := strings.Cut(string(text), "\n"); found {
			m.Reason = strings.TrimSuffix(reason, "\n")
		}
	}
	return m, nil
}

// reasonBytes bounds what is read of a .reason file.
const reasonBytes = 4096

// EachQuarantined reads the messages in corrupt/, one after the other.
func (f *Files) EachQuarantined(ctx context.Context, do func(*Stored)) error {
	var failed error
	err := f.places.eachName(ctx, Corrupt, func(n Name) bool {
		m, err := f.places.readStored(Corrupt, n)
		if m != nil {
			do(m)
		}
		failed = errors.Join(failed, err)
		return true
	})
	return errors.Join(err, failed)
}

// Show reads one message in any place, or returns nil if there is none. id is the path of its control file below
// transport/, its number or its spoolid; a path that begins with "hold/" is one
// below hold/transport/.
func (f *Files) Show(id string) (*Stored, error) {
	first, id := placeOf(id)
	what, ok := parseIdentity(id)
	if !ok || first == Hold && what.path == "" {
		return nil, nil
	}
	places := []Place{Queue, Hold, Corrupt}
	if first == Hold {
		places = []Place{Hold}
	}
	for _, p := range places {
		n, err := f.places.find(p, what)
		if err != nil {
			return nil, err
		}
		if n.ID == 0 {
			continue
		}
		if m, err := f.places.readStored(p, n); m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
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
	if !ok || !isHashPrefix(prefix) {
		return identity{}, false
	}
	if prefix == "" && base == strconv.FormatUint(n, 10) {
		return identity{number: n}, true
	}
	return identity{path: id, number: n}, true
}

// find returns the control file with this identity, if it has a name that a router gives or
// its path is known; its ID is 0 if there is none.
func (at *places) find(p Place, id identity) (found Name, err error) {
	paths := []string{id.path}
	if id.path == "" {
		paths = paths[:0]
		for levels := range maxDepth + 1 {
			paths = append(paths, ctlfile.HashDir(id.number, levels)+strconv.FormatUint(id.number, 10))
		}
	}
	for _, path := range paths {
		n := Name{path, id.number}
		if is, err := at.isStored(p, n, id.spoolID); is || err != nil {
			return n, err
		}
	}
	return Name{}, nil
}

// isStored reports whether there is such a control file, and whether its message has
// this spoolid; "": any.
func (at *places) isStored(p Place, n Name, spoolID string) (is bool, err error) {
	var st, message unix.Stat_t
	switch err := postoffice.Stat(at.pairs[p].transport, n.Path, &st); {
	case err == unix.ENOENT, err == unix.ENOTDIR:
		return false, nil
	case err != nil:
		return false, err
	}
	if is = postoffice.IsRegular(&st); !is || spoolID == "" {
		return is, nil
	}
	switch err := postoffice.Stat(at.pairs[p].queue, n.Path, &message); err {
	case nil:
		st = message
	case unix.ENOENT: // the spoolid has the time of the control file
	default:
		return false, err
	}
	return ctlfile.SpoolID(n.ID, time.Unix(st.Mtim.Unix())) == spoolID, nil
}
