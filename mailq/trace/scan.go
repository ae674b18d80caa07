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
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
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
type matcher func(lines []byte, found func(at int))

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
	for i, name := range files {
		if err := readFile(name, i, from, blocks, free); err != nil {
			trouble = errors.Join(trouble, fmt.Errorf("%s: %w", name, err))
		}
	}
	close(blocks)
	workers.Wait()
	return events, trouble
}

// readFile sends the blocks of a file, which may be compressed by gzip.
func readFile(name string, index int, from time.Time, blocks chan<- block, free <-chan []byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	var offset int64
	if strings.HasSuffix(name, ".gz") {
		in, err = gzip.NewReader(f)
	} else {
		offset, err = seek(f, from)
	}
	if err != nil {
		return err
	}
	var rest []byte // the beginning of a line
	for err == nil {
		buffer := <-free
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
		blocks <- block{buffer[:end], index, offset}
		offset += int64(end)
	}
	if err == io.EOF { // a line without an end is still being written
		return nil
	}
	return err
}

// seek moves to a place before the lines that are not from before a time. The lines of a log are
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
	return f.Seek(int64(max(0, n-1))*blockSize, io.SeekStart)
}

// events returns the events of a block that match and are wanted.
func (b *block) events(match matcher, wanted func(*Event) bool) (events []*Event) {
	begin, end := 0, 0
	match(b.lines, func(at int) {
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

// withText finds a text, in lower or upper case. It looks for the longest part that is in the log
// as it is here: JSON escapes some characters, and others than ASCII have other cases. If there is
// none, it finds all lines.
func withText(text string) matcher {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' })
	slices.SortStableFunc(parts, func(a, b string) int { return len(b) - len(a) })
	part := []byte(append(parts, "\n")[0])
	lower, upper := bytes.ToLower(part), bytes.ToUpper(part)
	return func(lines []byte, found func(int)) {
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
	}
}

// withSpoolID finds the lines about messages.
func withSpoolID(ids map[string]bool) matcher {
	return func(lines []byte, found func(int)) {
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
	}
}
