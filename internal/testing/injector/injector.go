// Package injector runs a program under ptrace(2) and stops each of its calls on
// files below one directory, and those of its children. For each call it asks what
// to do: let it pass, make it fail with an error, make it write only half of its data,
// or kill the process that makes it, or all processes at once.
//
//	p, err := injector.Start(injector.Options{
//		Root: dir, Command: exec.Command("scheduler", "-i"),
//		Decide: func(c injector.Call) injector.Action {
//			if c.Program == "scheduler" && c.Name == "pwrite64" {
//				return injector.Action{Error: unix.ENOSPC}
//			}
//			return injector.Action{}
//		},
//	})
//	status := p.Wait()
//
// Because of a seccomp(2) filter, only calls on files stop; everything else runs at
// full speed. The filter is in force before the program begins: the process starts as
// the program that called Start, which must call Begin first of all, and becomes the
// program itself.
//
// The package needs no privilege. Where ptrace is forbidden, Start returns
// ErrForbidden. It works on Linux on amd64 only, because it reads registers.
package injector

import "errors"

// ErrForbidden says that this system does not let us trace a process.
var ErrForbidden = errors.New("ptrace is forbidden here")
