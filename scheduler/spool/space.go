package spool

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/internal/eintr"
)

// Space is what a file system has.
type Space struct {
	FreeKB, UsedKB       uint64 // of 1024 bytes; free is what others than root may use
	FreeFiles, UsedFiles uint64 // inodes
}

// ReadSpace asks the file system that a directory is on (statfs(2)).
func ReadSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := eintr.Retry(func() error { return unix.Statfs(dir, &st) }); err != nil {
		return Space{}, fmt.Errorf("asking for the space of %q: %w", dir, err)
	}
	block := uint64(max(st.Frsize, 1))
	return Space{
		FreeKB:    kilobytes(st.Bavail, block),
		UsedKB:    kilobytes(st.Blocks-min(st.Bfree, st.Blocks), block),
		FreeFiles: st.Ffree,
		UsedFiles: st.Files - min(st.Ffree, st.Files),
	}, nil
}

// kilobytes is that of so many blocks, whose size is a power of two.
func kilobytes(blocks, block uint64) uint64 {
	if block >= 1024 {
		return blocks * (block / 1024)
	}
	return blocks / (1024 / block)
}

// countDepth bounds the letter directories that CountFiles descends.
const countDepth = 8

// CountFiles counts the files below a directory whose names begin with a
// digit, in it and in directories of one letter, A to Z: what mailq -s calls
// the entries of router/, transport/ or queue/. A directory that is not there
// is an error.
func CountFiles(ctx context.Context, dir string) (int, error) {
	fd, err := openDir(unix.AT_FDCWD, dir)
	if err != nil {
		return 0, fmt.Errorf("counting the files in %q: %w", dir, err)
	}
	defer unix.Close(fd)
	n, err := count(ctx, fd, countDepth)
	if err != nil {
		return n, fmt.Errorf("counting the files in %q: %w", dir, err)
	}
	return n, nil
}

func count(ctx context.Context, fd, depth int) (n int, err error) {
	buf := make([]byte, direntBytes)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		read, err := getdents(fd, buf)
		if err != nil || len(read) == 0 {
			return n, err
		}
		for e := range read.all() {
			switch {
			case len(e.name) > 0 && '0' <= e.name[0] && e.name[0] <= '9':
				if !isKind(fd, e, unix.DT_DIR) {
					n++
				}
			case depth > 0 && isLetter(e.name) && isKind(fd, e, unix.DT_DIR):
				more, err := countLetter(ctx, fd, string(e.name), depth-1)
				n += more
				if err != nil {
					return n, err
				}
			}
		}
	}
}

// countLetter counts in a letter directory; one that has gone has no files.
func countLetter(ctx context.Context, fd int, letter string, depth int) (int, error) {
	child, err := openDir(fd, letter)
	switch err {
	case nil:
	case unix.ENOENT:
		return 0, nil
	default:
		return 0, err
	}
	defer unix.Close(child)
	return count(ctx, child, depth)
}
