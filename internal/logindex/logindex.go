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
	"path/filepath"
	"slices"
	"syscall"
)

const (
	filterSize = 4096
	recordSize = 28 + filterSize
	prefix     = ".event-index."
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Key has the places of a text in a filter. A text that is in half of the places of a full filter
// by chance is found in one of 256 blocks that do not have it.
type Key [8]uint16

// KeyOf returns the key of a text. Lower and upper case of ASCII are the same.
func KeyOf(text string) (k Key) {
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(text) {
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

// block is the content of a record.
type block struct {
	begin, end        int64
	lineSize, lineSum uint32 // of its last line
	filter            [filterSize]byte
}

// add adds a key to the filter and returns how many bits it has set.
func (b *block) add(k Key) (set int) {
	for _, at := range k {
		if bit := byte(1) << (at % 8); b.filter[at/8]&bit == 0 {
			b.filter[at/8] |= bit
			set++
		}
	}
	return set
}

// mayHave reports whether the filter has a key.
func (b *block) mayHave(k Key) bool {
	for _, at := range k {
		if b.filter[at/8]&(1<<(at%8)) == 0 {
			return false
		}
	}
	return true
}

func (b *block) encode() []byte {
	to := make([]byte, 0, recordSize)
	to = binary.LittleEndian.AppendUint64(to, uint64(b.begin))
	to = binary.LittleEndian.AppendUint64(to, uint64(b.end))
	to = binary.LittleEndian.AppendUint32(to, b.lineSize)
	to = binary.LittleEndian.AppendUint32(to, b.lineSum)
	to = append(to, b.filter[:]...)
	return binary.LittleEndian.AppendUint32(to, crc32.Checksum(to, castagnoli))
}

// decode reports whether a record is as it was written.
func (b *block) decode(record []byte) bool {
	b.begin, b.end = int64(binary.LittleEndian.Uint64(record)), int64(binary.LittleEndian.Uint64(record[8:]))
	b.lineSize, b.lineSum = binary.LittleEndian.Uint32(record[16:]), binary.LittleEndian.Uint32(record[20:])
	rest := record[24+copy(b.filter[:], record[24:]):]
	return crc32.Checksum(record[:recordSize-4], castagnoli) == binary.LittleEndian.Uint32(rest)
}

// scan calls visit with the blocks of an index, up to the first record that is not as it was
// written. It returns the size of their records, or 0 if they are not about this log.
func scan(index io.Reader, log io.ReaderAt, visit func(*block)) (size int64) {
	in, record := bufio.NewReaderSize(index, 64*recordSize), make([]byte, recordSize)
	var b, last block
	for {
		_, err := io.ReadFull(in, record)
		if err != nil || !b.decode(record) || b.begin < last.end || b.end < b.begin+int64(b.lineSize) {
			break
		}
		visit(&b)
		last, size = b, size+recordSize
	}
	line := crc32.New(castagnoli)
	n, _ := io.Copy(line, io.NewSectionReader(log, last.end-int64(last.lineSize), int64(last.lineSize)))
	if n != int64(last.lineSize) || line.Sum32() != last.lineSum {
		return 0
	}
	return size
}

// Part is a part of a log: whole lines, or the beginning of a line at its end.
type Part struct{ Begin, End int64 }

// Parts returns the parts of a log from a place on that may have one of the keys, or that the
// index does not cover, in their order. The last one ends with the log.
func Parts(log *os.File, from int64, keys []Key) (parts []Part) {
	index, err := open(log, os.O_RDONLY)
	if err != nil {
		return []Part{{from, math.MaxInt64}}
	}
	defer index.Close()
	begin := from
	size := scan(index, log, func(b *block) {
		if slices.ContainsFunc(keys, b.mayHave) {
			return
		}
		if begin < b.begin {
			parts = append(parts, Part{begin, b.begin})
		}
		begin = max(begin, b.end)
	})
	if size == 0 {
		return []Part{{from, math.MaxInt64}}
	}
	return append(parts, Part{begin, math.MaxInt64})
}

// errForeign says that the index could be that of another user.
var errForeign = errors.New("the index does not belong to the log")

// open opens the index of a log, if it is a file with one name and of the same user.
func open(log *os.File, flags int) (*os.File, error) {
	of, err := log.Stat()
	if err != nil {
		return nil, err
	}
	index, err := os.OpenFile(nameOf(log.Name(), of), flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := index.Stat()
	if err == nil && (!info.Mode().IsRegular() || stat(info).Nlink != 1 || stat(info).Uid != stat(of).Uid) {
		err = errForeign
	}
	if err != nil {
		index.Close()
		return nil, err
	}
	return index, nil
}

func nameOf(log string, info os.FileInfo) string {
	return filepath.Join(filepath.Dir(log), fmt.Sprint(prefix, stat(info).Ino))
}

func stat(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
