package logindex

// Writing: the log passes through, and its lines are indexed.

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxBlock ends a block whose strings have not set half of the bits of the filter before.
const maxBlock = 512 << 10

// writer writes a log and its index.
type writer struct {
	log, index *os.File
	size       int64  // of the index
	at         int64  // where the next Write begins if nobody truncates the log
	rest       []byte // the beginning of a line before that place
	torn       bool   // rest belongs to a line that began before Open
	block             // the lines that no record covers yet; rest follows
	bits       int    // how many are set in its filter
}

// Open returns a writer of a log that was opened to append. It writes an index, too, if the log is
// a regular file and the index can be opened. Indexes of logs that are gone are removed.
func Open(log *os.File) io.WriteCloser {
	info, err := log.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return log
	}
	removeOthers(log.Name())
	index, err := open(log, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		index, err = open(log, os.O_RDWR)
	}
	if err != nil {
		return log
	}
	w := &writer{log: log, index: index}
	at, _ := log.Seek(0, io.SeekEnd)
	w.restart(at)
	// The log was not opened to be read.
	if in, err := os.Open(fmt.Sprint("/proc/self/fd/", log.Fd())); err == nil {
		w.size = scan(index, in, func(*block) {})
		in.Close()
	}
	_ = index.Truncate(w.size)
	return w
}

// removeOthers removes the indexes in the directory of a log that belong to no file there.
func removeOthers(log string) {
	entries, _ := os.ReadDir(filepath.Dir(log))
	used := make(map[string]bool)
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(filepath.Dir(log), entry.Name())); err == nil {
			used[nameOf(log, info)] = true
		}
	}
	for _, entry := range entries {
		name := filepath.Join(filepath.Dir(log), entry.Name())
		if strings.HasPrefix(entry.Name(), prefix) && !used[name] {
			_ = os.Remove(name)
		}
	}
}

// Write writes to the log and returns its error.
func (w *writer) Write(b []byte) (int, error) {
	n, err := w.log.Write(b)
	at, _ := w.log.Seek(0, io.SeekCurrent)
	if at != w.at+int64(n) {
		w.restart(at - int64(n))
		_ = w.index.Truncate(0)
	}
	w.at = at
	w.rest = append(w.rest, b[:n]...)
	whole := w.rest[:bytes.LastIndexByte(w.rest, '\n')+1]
	for line := range bytes.Lines(whole) {
		w.addLine(line)
	}
	w.rest = w.rest[:copy(w.rest, w.rest[len(whole):])]
	return n, err
}

// restart begins an index of what is written to a log after a place.
func (w *writer) restart(at int64) {
	w.size, w.at, w.rest, w.torn, w.bits = 0, at, nil, at > 0, 0
	w.block = block{place: place{Begin: at, End: at}}
}

// addLine adds a whole line to the block.
func (w *writer) addLine(line []byte) {
	w.End += int64(len(line))
	if w.torn {
		w.Begin, w.torn = w.End, false
		return
	}
	eachKey(string(line), func(k Key) { w.bits += w.add(k) })
	w.LineSize, w.LineSum = uint32(len(line)), crc32.Checksum(line, castagnoli)
	if w.bits >= 8*filterSize/2 || w.End-w.Begin >= maxBlock {
		w.endBlock()
	}
}

// endBlock writes the record of the block. If it cannot be written whole, the next one takes its
// place.
func (w *writer) endBlock() {
	if _, err := w.index.WriteAt(w.encode(), w.size); err == nil {
		w.size += recordSize
	}
	w.block, w.bits = block{place: place{Begin: w.End, End: w.End}}, 0
}

// Close closes the log and returns its error.
func (w *writer) Close() error {
	if w.Begin < w.End {
		w.endBlock()
	}
	_ = w.index.Close()
	return w.log.Close()
}

// eachKey calls add with the keys of what a line is found by: some of its fields. JSON must have
// escaped nothing in their values.
func eachKey(line string, add func(Key)) {
	var name, colon string // the two parts before
	for part := range strings.SplitSeq(line, `"`) {
		if colon == ":" {
			switch name {
			case "spoolid":
				add(KeyOf(Number(part)))
				fallthrough
			case "message_id", "sender", "recipient", "original", "alias", "client", "source", "file":
				add(KeyOf(part))
			}
		}
		name, colon = colon, part
	}
}
