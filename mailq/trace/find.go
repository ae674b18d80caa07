package trace

// Finding: the files of the log, and the events in them that are about what the user named.

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"zsched/ctlfile"
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
	what    string
	number  string          // of the control file if what is a file name; else ""
	ids     map[string]bool // spoolids of the messages; true: with all their recipients
	rcpts   map[string]bool // spoolids with the recipients that match
	words   [][]byte        // a matching line contains at least one of them
	events  []*Event
	trouble error // files that could be read only in part
}

// Read returns the events about what the user named, in the order of their times. With an error
// there may be events, too: of the files that can be read.
func Read(files []string, what string) ([]*Event, error) {
	s := &search{what: what, ids: make(map[string]bool), rcpts: make(map[string]bool)}
	if base := path.Base(what); base != "" && strings.Trim(base, "0123456789") == "" {
		s.number = base
		s.want(base)
	} else {
		s.want(ctlfile.Unbracketed(what))
	}
	// A message is known only from its first line that matches. So the files are read again
	// until no other message is found.
	for known := -1; known < len(s.ids); {
		known, s.events, s.trouble = len(s.ids), nil, nil
		for _, name := range files {
			if err := s.readFile(name); err != nil {
				s.trouble = errors.Join(s.trouble, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	slices.SortStableFunc(s.events, func(a, b *Event) int { return a.Time.Compare(b.Time) })
	return s.events, s.trouble
}

// want adds a text to the words, as it is in the log, in lower case.
func (s *search) want(text string) {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) == nil {
		s.words = append(s.words, bytes.ToLower(bytes.Trim(quoted.Bytes(), "\"\n")))
	}
}

// maxLine bounds a line of the log in bytes. Longer lines are not events.
const maxLine = 64 << 10

// readFile reads a file, which may be compressed by gzip.
func (s *search) readFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return err
		}
	}
	lines := bufio.NewReaderSize(in, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF: // a line without an end is still being written
			return nil
		case err != nil:
			return err
		}
		s.readLine(line)
	}
}

// readLine keeps a line if it is an event about a message that matches, or about a file.
func (s *search) readLine(line []byte) {
	lower, e := bytes.ToLower(line), new(Event)
	if !slices.ContainsFunc(s.words, func(word []byte) bool { return bytes.Contains(lower, word) }) ||
		json.Unmarshal(line, e) != nil || e.Event == "" {
		return
	}
	found := s.number != "" && path.Base(e.File) == s.number
	if e.SpoolID != "" {
		found = s.find(e)
	}
	if found {
		e.line = bytes.Clone(bytes.TrimRight(line, "\n"))
		s.events = append(s.events, e)
	}
}

// find reports whether an event of a message is wanted. It remembers the message, and the one that
// it has become if it was sent elsewhere.
func (s *search) find(e *Event) bool {
	is := func(text string) bool { return text != "" && strings.EqualFold(text, s.what) }
	whole, known := s.ids[e.SpoolID]
	whole = whole || is(e.Sender) || is(e.SpoolID) || s.number != "" && numberOf(e.SpoolID) == s.number ||
		e.MessageID != "" && strings.EqualFold(ctlfile.Unbracketed(e.MessageID), ctlfile.Unbracketed(s.what))
	rcpt := e.SpoolID + " " + e.Recipient
	if is(e.Recipient) || is(e.Original) || is(e.Alias) {
		s.rcpts[rcpt] = true
	}
	if !whole && !known && !s.rcpts[rcpt] {
		return false
	}
	s.ids[e.SpoolID] = whole
	if !known {
		s.want(e.SpoolID)
	}
	if _, known := s.ids[e.NewSpoolID]; e.NewSpoolID != "" && !known {
		s.ids[e.NewSpoolID] = true
		s.want(e.NewSpoolID)
	}
	return whole || e.Recipient == "" || s.rcpts[rcpt]
}

// numberOf returns the number of the control file in a spoolid. Eight or thirteen
// characters for the time follow it.
func numberOf(spoolid string) string {
	digits := strings.TrimPrefix(spoolid, "S")
	return digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
}
