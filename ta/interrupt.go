package ta

import (
	"context"
	"io"
	"os"
	"syscall"
	"time"
)

// interruptible is r such that the end of ctx ends a Read of it under way, if
// that can be done: by a deadline, on a blocking socket by closing that
// direction, on any other file (an agent started by hand has a pipe or a
// terminal) by leaving the Read to itself. stop lets go of ctx.
func interruptible(ctx context.Context, r io.Reader) (_ io.Reader, stop func() bool) {
	f, ok := r.(interface {
		SetReadDeadline(time.Time) error
		SyscallConn() (syscall.RawConn, error)
	})
	if !ok {
		return r, func() bool { return true }
	}
	if f.SetReadDeadline(time.Time{}) == nil {
		return r, context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	}
	if file, ok := r.(*os.File); ok && !isSocket(file) {
		return &deserter{ctx, file}, func() bool { return true }
	}
	return r, context.AfterFunc(ctx, func() {
		if conn, err := f.SyscallConn(); err == nil {
			_ = conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
		}
	})
}

func isSocket(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeSocket != 0
}

// deserter reads until ctx ends. A Read that is under way then goes on without
// anybody to wait for it, so nothing may be read afterwards.
type deserter struct {
	ctx context.Context
	r   io.Reader
}

func (d *deserter) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	read := make(chan result, 1)
	go func() {
		n, err := d.r.Read(b)
		read <- result{n, err}
	}()
	select {
	case got := <-read:
		return got.n, got.err
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}
