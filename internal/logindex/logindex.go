// Package logindex keeps an index beside the event log: mailq trace reads only the parts of the
// log that may have what it looks for.
//
//	scheduler ──► Open: the log, and a record for each block of its lines ──► Parts ──► mailq trace
//
// A block is some hundred kilobytes of whole lines. Its record is a Bloom filter: the filter may
// say that the block has a text when it has not, and never the reverse. What no record covers is
// read: the end of the log, and what was written before there was an index. So an index that is
// missing or damaged costs time and hides nothing, and no error of the index is one of the log.
//
// The index belongs to an inode, because the log is renamed when it is rotated. It is
// .event-index.INODE in the directory of the log, and consists of records in the order of the log:
//
//	begin, end  8 bytes each  the place of the block in the log
//	size, sum   4 bytes each  of the last line of the block: size in bytes, checksum
//	filter      4096 bytes
//	checksum    4 bytes       of all that
//
// Numbers are little-endian, checksums CRC-32C. The last line of the last block shows that the log
// is the one that was indexed: it may have been truncated, or be a copy that has an old inode.
package logindex

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	filterSize = 4096
	recordSize = 28 + filterSize
	prefix     = ".event-index."
	digits     = "0123456789"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Text returns what a value is found by: the value without angle brackets, or of the name of a
// control file, such as A/123, only the number.
func Text(value string) string {
	text := strings.Trim(value, "<>")
	if base := path.Base(text); strings.Trim(base, digits) == "" {
		return base
	}
	return text
}

// Number returns the number of the control file in a spoolid. Eight or thirteen characters for the
// time follow it.
func Number(spoolid string) string {
	number := strings.TrimPrefix(spoolid, "S")
	return number[:len(number)-len(strings.TrimLeft(number, digits))]
}

// Key has the places of a text in a filter. When half of the bits of the filter are set, one text
// in 256 seems to be there and is not.
type Key [8]uint16

// KeyOf returns the key of the text of a value, in which lower and upper case of ASCII are the same.
func KeyOf(value string) (k Key) {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(Text(value)) {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = (h ^ uint64(c)) * 1099511628211
	}
	for i := range k {
		k[i] = uint16((h + uint64(i)*(h>>32|1)) % (8 * filterSize))
	}
	return k
}

// block is what a record says of a block.
type block struct {
	place
	filter [filterSize]byte
}

// place is where a block is.
type place struct {
	Begin, End        int64
	LineSize, LineSum uint32 // of its last line
}

// add adds a key to the filter and returns how many bits that has set.
func (b *block) add(k Key) (set int) {
	for _, at := range k {
		set += int(^b.filter[at/8] >> (at % 8) & 1)
		b.filter[at/8] |= 1 << (at % 8)
	}
	return set
}

// mayHave reports whether the filter has a key.
func (b *block) mayHave(k Key) bool {
	for _, at := range k {
		if b.filter[at/8]>>(at%8)&1 == 0 {
			return false
		}
	}
	return true
}

func (b *block) encode() []byte {
	record, _ := binary.Append(nil, binary.LittleEndian, b.place)
	record = append(record, b.filter[:]...)
	return binary.LittleEndian.AppendUint32(record, crc32.Checksum(record, castagnoli))
}

// decode reports whether a record is as it was written.
func (b *block) decode(record []byte) bool {
	n, _ := binary.Decode(record, binary.LittleEndian, &b.place)
	n += copy(b.filter[:], record[n:])
	return crc32.Checksum(record[:n], castagnoli) == binary.LittleEndian.Uint32(record[n:])
}

// scan calls visit with the blocks of an index, up to the first record that is not as it was
// written. It returns the size of their records, or 0 if they are not about this log.
func scan(index io.Reader, log io.ReaderAt, visit func(*block)) (size int64) {
	in, record := bufio.NewReaderSize(index, 64*recordSize), make([]byte, recordSize)
	var b block
	var last place
	for {
		_, err := io.ReadFull(in, record)
		if err != nil || !b.decode(record) || b.Begin < last.End || b.End < b.Begin+int64(b.LineSize) {
			break
		}
		visit(&b)
		last, size = b.place, size+recordSize
	}
	line := crc32.New(castagnoli)
	n, _ := io.Copy(line, io.NewSectionReader(log, last.End-int64(last.LineSize), int64(last.LineSize)))
	if n != int64(last.LineSize) || line.Sum32() != last.LineSum {
		return 0
	}
	return size
}

// Part is a part of a log: whole lines, or the beginning of a line at its end.
type Part struct{ Begin, End int64 }

// Parts returns the parts of a log from a place on that may have one of the keys, or that the
// index does not cover, in their order. The last one ends with the log.
func Parts(log *os.File, from int64, keys []Key) (parts []Part) {
	begin := from
	if index, err := open(log, os.O_RDONLY); err == nil {
		defer index.Close()
		size := scan(index, log, func(b *block) {
			if slices.ContainsFunc(keys, b.mayHave) {
				return
			}
			if begin < b.Begin {
				parts = append(parts, Part{begin, b.Begin})
			}
			begin = max(begin, b.End)
		})
		if size == 0 {
			parts, begin = nil, from
		}
	}
	return append(parts, Part{begin, math.MaxInt64})
}

// errForeign says that the index could be that of another user.
var errForeign = errors.New("the index does not belong to the log")

// open opens the index of a log, if it is a file with one name and of the same user. A new one gets
// the mode, user and group of the log.
func open(log *os.File, flags int) (*os.File, error) {
	of, err := log.Stat()
	if err != nil {
		return nil, err
	}
	index, err := os.OpenFile(nameOf(log.Name(), of), flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if flags&os.O_EXCL != 0 && index.Chown(int(stat(of).Uid), int(stat(of).Gid)) == nil {
		_ = index.Chmod(of.Mode().Perm())
	}
	info, err := index.Stat()
	if err == nil && info.Mode().IsRegular() && stat(info).Nlink == 1 && stat(info).Uid == stat(of).Uid {
		return index, nil
	}
	index.Close()
	return nil, errForeign
}

func nameOf(log string, info os.FileInfo) string {
	return filepath.Join(filepath.Dir(log), fmt.Sprint(prefix, stat(info).Ino))
}

func stat(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
