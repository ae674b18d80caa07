package trace

// Finding: the files of the log, and the events in them that are about what the user named.

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/logindex"
)

// Files returns the event log and the rotated logs. The name of a rotated log begins with that of
// the log and a dot or a hyphen.
func Files(log string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Dir(log))
	for _, entry := range entries {
		rest, isLog := strings.CutPrefix(entry.Name(), filepath.Base(log))
		if isLog && !entry.IsDir() && (rest == "" || rest[0] == '.' || rest[0] == '-') {
			names = append(names, filepath.Join(filepath.Dir(log), entry.Name()))
		}
	}
	if len(names) == 0 && err == nil {
		err = &fs.PathError{Op: "open", Path: log, Err: fs.ErrNotExist}
	}
	return names, err
}

// search is what the user named, and the messages that were found.
type search struct {
	what   string
	number string          // of the control file if what is a file name; else ""
	ids    map[string]bool // spoolids of the messages; true: with all their recipients
	rcpts  map[string]bool // spoolids with the recipients that match
	unread map[string]bool // spoolids of messages whose other lines were not read yet
}

// Read returns the events about what the user named that are not before a time, in the order of
// their times. With an error there may be events, too: of the files that can be read.
func Read(files []string, what string, since time.Time) ([]*Event, error) {
	what = cmp.Or(ctlfile.Unbracketed(what), what)
	s := &search{what: what, ids: make(map[string]bool), rcpts: make(map[string]bool), unread: make(map[string]bool)}
	if base := path.Base(what); strings.Trim(base, "0123456789") == "" {
		s.number = base
	}
	late := func(e *Event) bool { return !e.Time.Before(since) }
	// Only the arrival of a message has its client, its source and the addresses before aliases.
	found, trouble := read(files, time.Time{}, withText(what), func(e *Event) bool { return e.Event == "arrival" || late(e) })
	for _, e := range found {
		s.learn(e)
	}
	found = slices.DeleteFunc(found, func(e *Event) bool { return !s.wanted(e) })
	for more := found; ; {
		for _, e := range more {
			if _, known := s.ids[e.NewSpoolID]; e.NewSpoolID != "" && !known {
				s.ids[e.NewSpoolID], s.unread[e.NewSpoolID] = true, true
			}
		}
		if len(s.unread) == 0 {
			break
		}
		// The first lines of a message have one time. Those of a copy may come before the line
		// that names it.
		from := slices.MinFunc(found, byTime).Time.Add(-time.Minute)
		if from.Before(since) {
			from = since
		}
		more, trouble = read(files, from, withSpoolID(s.unread), s.wanted)
		found, s.unread = append(found, more...), make(map[string]bool)
	}
	found = slices.DeleteFunc(found, func(e *Event) bool { return !late(e) })
	slices.SortFunc(found, func(a, b *Event) int {
		return cmp.Or(byTime(a, b), cmp.Compare(a.file, b.file), cmp.Compare(a.offset, b.offset))
	})
	return slices.CompactFunc(found, func(a, b *Event) bool { return a.file == b.file && a.offset == b.offset }), trouble
}

func byTime(a, b *Event) int { return a.Time.Compare(b.Time) }

// learn remembers the message of an event that matches.
func (s *search) learn(e *Event) {
	is := func(text string) bool { return text != "" && strings.EqualFold(text, s.what) }
	_, known := s.ids[e.SpoolID]
	switch {
	case e.SpoolID == "":
	case is(e.Sender), is(e.SpoolID), s.number != "" && logindex.Number(e.SpoolID) == s.number,
		e.MessageID != "" && strings.EqualFold(ctlfile.Unbracketed(e.MessageID), s.what):
		s.ids[e.SpoolID] = true // all lines about the message have these fields, and are read
	case is(e.Client), is(e.Source): // only the lines of its arrival have them
		if !s.ids[e.SpoolID] {
			s.ids[e.SpoolID], s.unread[e.SpoolID] = true, true
		}
	case is(e.Recipient), is(e.Original), is(e.Alias):
		s.rcpts[e.SpoolID+" "+e.Recipient] = true
		if !known {
			s.ids[e.SpoolID], s.unread[e.SpoolID] = false, true
		}
	}
}

// wanted reports whether an event is about a message that was found, or about the file.
func (s *search) wanted(e *Event) bool {
	whole, known := s.ids[e.SpoolID]
	if e.SpoolID == "" {
		return s.number != "" && path.Base(e.File) == s.number
	}
	return whole || known && (e.Recipient == "" || s.rcpts[e.SpoolID+" "+e.Recipient])
}
