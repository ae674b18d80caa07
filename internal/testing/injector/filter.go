//go:build linux && amd64

package injector

// The seccomp filter, and the first instructions of a traced process.

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// beginName is the first argument (argv[0]) of a traced process until it executes the
// program, whose path is the next argument.
const beginName = "injector: begin"

// Begin executes the traced program if Start started this process; otherwise it
// returns. A program that uses Start calls it first in main or TestMain.
func Begin() {
	if len(os.Args) < 3 || os.Args[0] != beginName {
		return
	}
	runtime.LockOSThread() // the filter applies to one thread
	err := installFilter()
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[2:], os.Environ())
	}
	fmt.Fprintf(os.Stderr, "injector: starting %s: %v\n", os.Args[1], err)
	os.Exit(126)
}

// startThroughBegin changes a command so that Begin starts it.
func startThroughBegin(cmd *exec.Cmd) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd.Args = append([]string{beginName, cmd.Path}, cmd.Args...)
	cmd.Path = self
	return nil
}

// installFilter makes this thread, and all that it starts, stop for the tracer at each
// system call that is listed in calls. Without the tracer these calls would fail with ENOSYS.
func installFilter() error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret    = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	left := len(calls)
	for number := range calls {
		filter = append(filter, unix.SockFilter{Code: equals, Jt: uint8(left), K: uint32(number)})
		left--
	}
	filter = append(filter, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_TRACE})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if os.Geteuid() != 0 || unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) != nil {
		// Without CAP_SYS_ADMIN the process first gives up set-user-ID programs.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("setting no_new_privs: %w", err)
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			return fmt.Errorf("installing the seccomp filter: %w", err)
		}
	}
	runtime.KeepAlive(filter)
	return nil
}

// shape says which arguments of a call name its file.
type shape uint8

const (
	byFD      shape = iota // the first is a descriptor
	byPath                 // the first is a path
	byAt                   // a directory and a path below it
	byTwo                  // two paths
	byTwoAt                // two directories and paths
	byLinkAt               // symlinkat: a text, a directory and a path
	byFcntl                // as byFD; only locks and leases count
	byInotify              // the second is a path
)

// effect is what a call does to files.
type effect uint8

const (
	reads   effect = iota
	opens          // an existing file; with O_CREAT it is creates
	creates        // a file, a directory or a link
	writes         // data or attributes
	syncs
	names // rename and unlink
)

// call is what is known about a system call.
type call struct {
	name   string
	shape  shape
	effect effect
}

// calls are the system calls at which a traced thread stops.
var calls = map[uint64]call{
	unix.SYS_OPEN:              {"open", byPath, opens},
	unix.SYS_OPENAT:            {"openat", byAt, opens},
	unix.SYS_OPENAT2:           {"openat2", byAt, opens},
	unix.SYS_CREAT:             {"creat", byPath, creates},
	unix.SYS_READ:              {"read", byFD, reads},
	unix.SYS_PREAD64:           {"pread64", byFD, reads},
	unix.SYS_GETDENTS64:        {"getdents64", byFD, reads},
	unix.SYS_FSTAT:             {"fstat", byFD, reads},
	unix.SYS_STAT:              {"stat", byPath, reads},
	unix.SYS_LSTAT:             {"lstat", byPath, reads},
	unix.SYS_NEWFSTATAT:        {"newfstatat", byAt, reads},
	unix.SYS_STATX:             {"statx", byAt, reads},
	unix.SYS_STATFS:            {"statfs", byPath, reads},
	unix.SYS_FSTATFS:           {"fstatfs", byFD, reads},
	unix.SYS_READLINKAT:        {"readlinkat", byAt, reads},
	unix.SYS_FACCESSAT:         {"faccessat", byAt, reads},
	unix.SYS_FACCESSAT2:        {"faccessat2", byAt, reads},
	unix.SYS_INOTIFY_ADD_WATCH: {"inotify_add_watch", byInotify, reads},
	unix.SYS_WRITE:             {"write", byFD, writes},
	unix.SYS_PWRITE64:          {"pwrite64", byFD, writes},
	unix.SYS_WRITEV:            {"writev", byFD, writes},
	unix.SYS_PWRITEV:           {"pwritev", byFD, writes},
	unix.SYS_FALLOCATE:         {"fallocate", byFD, writes},
	unix.SYS_COPY_FILE_RANGE:   {"copy_file_range", byFD, writes},
	unix.SYS_SENDFILE:          {"sendfile", byFD, writes},
	unix.SYS_FTRUNCATE:         {"ftruncate", byFD, writes},
	unix.SYS_TRUNCATE:          {"truncate", byPath, writes},
	unix.SYS_FCHMOD:            {"fchmod", byFD, writes},
	unix.SYS_FCHMODAT:          {"fchmodat", byAt, writes},
	unix.SYS_FCHOWN:            {"fchown", byFD, writes},
	unix.SYS_FCHOWNAT:          {"fchownat", byAt, writes},
	unix.SYS_LCHOWN:            {"lchown", byPath, writes},
	unix.SYS_FREMOVEXATTR:      {"fremovexattr", byFD, writes},
	unix.SYS_UTIMENSAT:         {"utimensat", byAt, writes},
	unix.SYS_FLOCK:             {"flock", byFD, reads},
	unix.SYS_FCNTL:             {"fcntl", byFcntl, reads},
	unix.SYS_FSYNC:             {"fsync", byFD, syncs},
	unix.SYS_FDATASYNC:         {"fdatasync", byFD, syncs},
	unix.SYS_SYNCFS:            {"syncfs", byFD, syncs},
	unix.SYS_MKDIR:             {"mkdir", byPath, creates},
	unix.SYS_MKDIRAT:           {"mkdirat", byAt, creates},
	unix.SYS_LINK:              {"link", byTwo, creates},
	unix.SYS_LINKAT:            {"linkat", byTwoAt, creates},
	unix.SYS_SYMLINKAT:         {"symlinkat", byLinkAt, creates},
	unix.SYS_UNLINK:            {"unlink", byPath, names},
	unix.SYS_UNLINKAT:          {"unlinkat", byAt, names},
	unix.SYS_RMDIR:             {"rmdir", byPath, names},
	unix.SYS_RENAME:            {"rename", byTwo, names},
	unix.SYS_RENAMEAT:          {"renameat", byTwoAt, names},
	unix.SYS_RENAMEAT2:         {"renameat2", byTwoAt, names},
}

// errnos lists what the calls of an effect can fail with.
var errnos = map[effect][]unix.Errno{
	reads:   {unix.EIO, unix.EINTR},
	opens:   {unix.EIO, unix.EINTR, unix.EMFILE, unix.ENFILE, unix.EACCES},
	creates: {unix.EIO, unix.EINTR, unix.EMFILE, unix.ENFILE, unix.EACCES, unix.ENOSPC, unix.EDQUOT, unix.EROFS},
	writes:  {unix.EIO, unix.EINTR, unix.ENOSPC, unix.EDQUOT},
	syncs:   {unix.EIO, unix.EINTR, unix.ENOSPC, unix.EDQUOT},
	names:   {unix.EIO, unix.EACCES, unix.ENOSPC, unix.EDQUOT, unix.EROFS},
}

// lockCommands are the commands of fcntl(2) that count.
var lockCommands = []uint64{unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_SETLEASE}

// trimDeleted removes what the kernel adds to the path of a file that has no name any more.
func trimDeleted(path string) string { return strings.TrimSuffix(path, " (deleted)") }
