package peertest

// Where on the disk benchmarks put their files.

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// topDir marks the top of a directory hierarchy: FS_TOPDIR_FL of ioctl_iflags(2).
const topDir = 0x20000

// SpreadTempDirs makes ext4 put each later directory of tb.TempDir, with the files in
// it, into block groups of its own.
//
// ext4 without a journal does not reuse the inode of a removed file for one minute, or
// for five if its block has not been written yet. To create a file, it goes through all
// such inodes of the block group. So a program that creates files gets slower with
// every file that earlier runs of any program have removed nearby: it takes half as
// long again after a few runs of some thousand messages. ext4 places the subdirectories
// of a directory with this mark, like those of the root, in the groups with the fewest
// directories; all others stay near their parent. The directories are removed only at
// the end of tb, so no two of them share their groups.
//
// It does nothing on a file system that has no such mark.
func SpreadTempDirs(tb testing.TB) {
	tb.Helper()
	dir, err := os.Open(filepath.Dir(tb.TempDir()))
	if err != nil {
		tb.Fatal(err)
	}
	defer dir.Close()
	flags, err := unix.IoctlGetUint32(int(dir.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, int(flags|topDir))
	}
}
