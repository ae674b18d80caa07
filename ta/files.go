package ta

import (
	"io"
	"syscall"
)

// raiseFiles raises the soft limit of open files to the hard one. The runtime
// does that at the start of every program in Go. But the scheduler sets our
// soft limit when it has started us (scheduler(8), -N), and which of the two
// comes last is chance: an agent with a hundred connections would be left with
// 32 files now and then. By the first line that it writes the scheduler is
// done with it.
func raiseFiles() {
	var files syscall.Rlimit
	// The runtime may stop one below.
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil && files.Cur+1 < files.Max {
		files.Cur = files.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files)
	}
}

// first is a Reader that calls do when something has come, once.
type first struct {
	io.Reader
	do func()
}

func (f *first) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if n > 0 && f.do != nil {
		f.do()
		f.do = nil
	}
	return n, err
}
