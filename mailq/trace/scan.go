package trace

// Scanning: the lines of the log that may matter, found among millions without parsing the others.
// All processors search, each in one block of lines at a time.

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"zsched/internal/logindex"
)

// blockSize is the size of a block in bytes. It fits into a processor's cache. A line that is
// longer is not an event.
const blockSize = 512 << 10

// block is a part of a log that consists of whole lines.
type block struct {
	lines  []byte
	file   int // the index of its file, and its place there
	offset int64
}

// matcher finds places in whole lines. A line that has one of them is parsed.
type matcher struct {
	find func(lines []byte, found func(at int))
	keys []logindex.Key // what it finds has one of them; nil: everything may match
}

// read returns, in any order and perhaps twice, the events that match, are not before a time and
// are wanted. An error names files that could be read only in part.
func read(files []string, from time.Time, match matcher, wanted func(*Event) bool) (events []*Event, trouble error) {
	processors := runtime.GOMAXPROCS(0)
	blocks, free := make(chan block), make(chan []byte, 2*processors)
	for range cap(free) {
		free <- make([]byte, blockSize)
	}
	var workers sync.WaitGroup
	var mu sync.Mutex
	for range processors {
		workers.Go(func() {
			for b := range blocks {
				found := b.events(match, func(e *Event) bool { return !e.Time.Before(from) && wanted(e) })
				mu.Lock()
				events = append(events, found...)
				mu.Unlock()
				free <- b.lines[:blockSize]
			}
		})
	}
	r := &reader{blocks, free}
	for i, name := range files {
		if err := r.readFile(name, i, from, match); err != nil {
			trouble = errors.Join(trouble, fmt.Errorf("%s: %w", name, err))
		}
	}
	close(blocks)
	workers.Wait()
	return events, trouble
}

// reader sends the blocks of files.
type reader struct {
	blocks chan<- block
	free   <-chan []byte
}

// readFile sends the blocks of a file, which may be compressed by gzip. Those that do not match by
// the index are left out.
func (r *reader) readFile(name string, index int, from time.Time, match matcher) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if strings.HasSuffix(name, ".gz") {
		in, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		return r.readLines(in, index, 0)
	}
	offset, err := seek(f, from)
	parts := []logindex.Part{{Begin: offset, End: math.MaxInt64}}
	if match.keys != nil {
		parts = logindex.Parts(f, offset, match.keys)
	}
	for _, part := range parts {
		if err == nil {
			err = r.readLines(io.NewSectionReader(f, part.Begin, part.End-part.Begin), index, part.Begin)
		}
	}
	return err
}

// readLines sends what in has of the lines of a file, from a place on.
func (r *reader) readLines(in io.Reader, file int, offset int64) (err error) {
	var rest []byte // the beginning of a line
	for err == nil {
		buffer := <-r.free
		n := copy(buffer, rest)
		for err == nil && n < blockSize {
			var more int
			more, err = in.Read(buffer[n:])
			n += more
		}
		end := bytes.LastIndexByte(buffer[:n], '\n') + 1
		if end == 0 && n == blockSize {
			end, buffer[n-1] = n, '\n'
		}
		rest = bytes.Clone(buffer[end:n])
		r.blocks <- block{buffer[:end], file, offset}
		offset += int64(end)
	}
	if err == io.EOF { // a line without an end is still being written
		return nil
	}
	return err
}

// seek returns a place before the lines that are not from before a time. The lines of a log are
// in the order of their times.
func seek(f *os.File, from time.Time) (int64, error) {
	info, err := f.Stat()
	if err != nil || from.IsZero() {
		return 0, err
	}
	const begin = `{"time":"`
	earliest := from.UTC().AppendFormat([]byte(begin), "2006-01-02T15:04:05")
	lines := make([]byte, 16<<10) // more than the longest line
	n := sort.Search(int(info.Size()/blockSize), func(i int) bool {
		n, _ := f.ReadAt(lines, int64(i)*blockSize)
		_, line, _ := bytes.Cut(lines[:n], []byte("\n"))
		return !bytes.HasPrefix(line, []byte(begin)) || bytes.Compare(line, earliest) >= 0
	})
	return int64(max(0, n-1)) * blockSize, nil
}

// events returns the events of a block that match and are wanted.
func (b *block) events(match matcher, wanted func(*Event) bool) (events []*Event) {
	begin, end := 0, 0
	match.find(b.lines, func(at int) {
		if begin <= at && at < end {
			return // another place in the same line
		}
		begin = bytes.LastIndexByte(b.lines[:at], '\n') + 1
		end = at + bytes.IndexByte(b.lines[at:], '\n') + 1
		e := &Event{line: b.lines[begin : end-1], file: b.file, offset: b.offset + int64(begin)}
		if json.Unmarshal(e.line, e) == nil && e.Event != "" && wanted(e) {
			e.line = bytes.Clone(e.line)
			events = append(events, e)
		}
	})
	return events
}

// withText finds the text of a value, in lower or upper case. It looks for the longest part that is
// in the log as it is here: JSON escapes some characters, and others than ASCII have other cases. If
// there is none, it finds all lines.
func withText(value string) matcher {
	isOther := func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }
	var keys []logindex.Key
	if value != "" && !strings.ContainsFunc(value, isOther) {
		keys = []logindex.Key{logindex.KeyOf(value)}
	}
	parts := strings.FieldsFunc(logindex.Text(value), isOther)
	slices.SortStableFunc(parts, func(a, b string) int { return len(b) - len(a) })
	part := []byte(append(parts, "\n")[0])
	lower, upper := bytes.ToLower(part), bytes.ToUpper(part)
	return matcher{keys: keys, find: func(lines []byte, found func(int)) {
		// The byte that is rarest in the first lines leads to the text.
		var count [256]int
		for _, c := range lines[:min(len(lines), 4096)] {
			count[c]++
		}
		rarest := 0
		for i := range part {
			if count[lower[i]]+count[upper[i]] < count[lower[rarest]]+count[upper[rarest]] {
				rarest = i
			}
		}
		for _, c := range slices.Compact([]byte{lower[rarest], upper[rarest]}) {
			for begin := 0; begin+len(part) <= len(lines); begin++ {
				next := bytes.IndexByte(lines[begin+rarest:], c)
				if next < 0 {
					break
				}
				begin += next
				if bytes.EqualFold(lines[begin:min(len(lines), begin+len(part))], part) {
					found(begin)
				}
			}
		}
	}}
}

// withSpoolID finds the lines about messages.
func withSpoolID(ids map[string]bool) matcher {
	var keys []logindex.Key
	for id := range ids {
		keys = append(keys, logindex.KeyOf(id))
	}
	return matcher{keys: keys, find: func(lines []byte, found func(int)) {
		for begin := 0; begin < len(lines); {
			length := bytes.IndexByte(lines[begin:], '\n') + 1
			// Only the time and the event come before it.
			_, rest, _ := bytes.Cut(lines[begin:begin+min(length, 128)], []byte(`,"spoolid":"`))
			id, _, _ := bytes.Cut(rest, []byte(`"`))
			if ids[string(id)] {
				found(begin)
			}
			begin += length
		}
	}}
}
