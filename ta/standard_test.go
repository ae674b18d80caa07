package ta

import (
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// An agent must not need input to leave, whether its input is the scheduler's socket or,
// where it was started by hand, a pipe.
func TestEndOfContextEndsARead(t *testing.T) {
	for name, pair := range map[string]func([]int) error{
		"blocking socket": func(p []int) error {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
			copy(p, fds[:])
			return err
		},
		"polled socket": func(p []int) error {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
			copy(p, fds[:])
			return err
		},
		"blocking pipe": func(p []int) error { return syscall.Pipe2(p, syscall.O_CLOEXEC) },
		"polled pipe":   func(p []int) error { return syscall.Pipe2(p, syscall.O_CLOEXEC|syscall.O_NONBLOCK) },
	} {
		t.Run(name, func(t *testing.T) {
			var fds [2]int
			if err := pair(fds[:]); err != nil {
				t.Fatal(err)
			}
			in, other := os.NewFile(uintptr(fds[0]), "in"), os.NewFile(uintptr(fds[1]), "other")
			defer in.Close()
			defer other.Close() // ends a read that was abandoned
			ctx, cancel := context.WithCancel(t.Context())
			r := pollable(in)
			defer r.Close()
			defer interruptible(ctx, r)()
			go cancel()
			if n, err := r.Read(make([]byte, 10)); err == nil || n != 0 {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
	}
}

// The standard streams of an agent are one socket. Whatever does not fit into its buffer
// is written when the scheduler reads.
func TestStandardStreamsWaitInThePoller(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(fds[1]), "scheduler")
	defer other.Close()
	stream := os.NewFile(uintptr(fds[0]), "stdin and stdout")
	defer stream.Close()
	in, out := pollable(stream), pollable(stream)
	defer in.Close()
	defer out.Close()
	if err := in.SetReadDeadline(time.Time{}); err != nil {
		t.Errorf("stdin: %v", err)
	}
	text := make([]byte, 4<<20)
	written := make(chan error, 1)
	go func() {
		_, err := out.Write(text)
		written <- err
	}()
	if n, err := io.ReadFull(other, make([]byte, len(text))); err != nil {
		t.Errorf("%d bytes read: %v", n, err)
	}
	if err := <-written; err != nil {
		t.Errorf("stdout: %v", err)
	}
}
