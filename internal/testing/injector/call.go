//go:build linux && amd64

package injector

// A system call of a traced process on files: its name, its files, and the errors that
// it can fail with.

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Call is a call on a file below Options.Root that is about to be made.
type Call struct {
	Program string   // base name of the program that makes it
	PID     int      // of its process
	Name    string   // such as "pwrite64"; an open that may make a file is "create"
	Paths   []string // below Options.Root, which they leave out
	effect  effect
	size    uint64 // bytes that a write writes
}

// Changes reports whether the call changes something on the disk, or makes a change
// durable.
func (c Call) Changes() bool { return c.effect != reads && c.effect != opens }

// Writes reports whether the call writes more than one byte, so that half of it
// can be written.
func (c Call) Writes() bool { return c.size > 1 }

// CanFail reports whether a call of this kind can fail with an error.
func (c Call) CanFail(with unix.Errno) bool { return slices.Contains(errnos[c.effect], with) }

// Kind names the program, the call and the files, without the parts of their paths that
// differ from run to run.
func (c Call) Kind() string {
	b := strings.Builder{}
	b.WriteString(c.Program + " " + c.Name)
	for _, path := range c.Paths {
		b.WriteString(" " + General(path))
	}
	return b.String()
}

// General replaces each part of a path that has a digit in it with N.
func General(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.ContainsAny(part, "0123456789") {
			dot := ""
			if part[0] == '.' {
				dot = "."
			}
			parts[i] = dot + "N"
		}
	}
	return strings.Join(parts, "/")
}

// describe returns the call that a thread is about to make. ok is false if it is not
// on a file below root.
func (t *tracer) describe(tid int, p *process, regs *unix.PtraceRegs) (c Call, ok bool) {
	known, ok := calls[regs.Orig_rax]
	if !ok {
		return c, false
	}
	a := [...]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10}
	c = Call{Program: p.program, PID: p.pid, Name: known.name, effect: known.effect}
	fd := func(i int) string {
		if int32(a[i]) == unix.AT_FDCWD {
			link, _ := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/cwd")
			return link
		}
		link, _ := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/fd/" + strconv.Itoa(int(int32(a[i]))))
		return trimDeleted(link)
	}
	at := func(dir string, i int) string {
		name := readText(tid, uintptr(a[i]))
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(dir, name)
	}
	working := int32(unix.AT_FDCWD)
	cwd := func() string { save := a[0]; a[0] = uint64(uint32(working)); d := fd(0); a[0] = save; return d }
	var paths []string
	switch known.shape {
	case byFD:
		paths = []string{fd(0)}
	case byFcntl:
		if !slices.Contains(lockCommands, a[1]) {
			return c, false
		}
		paths = []string{fd(0)}
	case byPath:
		paths = []string{at(cwd(), 0)}
	case byAt:
		paths = []string{at(fd(0), 1)}
	case byInotify:
		paths = []string{at(cwd(), 1)}
	case byLinkAt:
		paths = []string{at(fd(1), 2)}
	case byTwo:
		paths = []string{at(cwd(), 0), at(cwd(), 1)}
	case byTwoAt:
		paths = []string{at(fd(0), 1), at(fd(2), 3)}
	}
	for _, path := range paths {
		if below, found := strings.CutPrefix(path, t.root); found {
			c.Paths = append(c.Paths, strings.TrimPrefix(below, "/"))
		}
	}
	if len(c.Paths) == 0 {
		return c, false
	}
	if c.Name == "openat" && a[2]&unix.O_CREAT != 0 {
		c.Name, c.effect = "create", creates
	}
	if c.Name == "write" || c.Name == "pwrite64" {
		c.size = a[2]
	}
	return c, true
}

// readText reads a text of a stopped thread, up to its NUL byte.
func readText(tid int, address uintptr) string {
	var text []byte
	for address != 0 && len(text) < unix.PathMax {
		buf := make([]byte, 256-address%256) // never beyond the end of a page
		n, err := unix.ProcessVMReadv(tid, []unix.Iovec{iovec(buf)}, []unix.RemoteIovec{{Base: address, Len: len(buf)}}, 0)
		if err != nil || n == 0 {
			return string(text)
		}
		if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
			return string(append(text, buf[:end]...))
		}
		text = append(text, buf[:n]...)
		address += uintptr(n)
	}
	return string(text)
}

func iovec(b []byte) unix.Iovec {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	return v
}
