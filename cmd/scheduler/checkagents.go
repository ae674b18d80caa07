package main

// The part of --check that asks our own programs what is wrong with their options.

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/scheduler/agent"
)

// askTimeout is how long a program may take to check its options.
const askTimeout = 10 * time.Second

// checkAgents asks each agent of ours, as a start would run it, what is wrong with its options.
func (c *checker) checkAgents() {
	env := newMoves(c.env, c.file.Params.NodeName(c.where.postoffice), &c.file.Params).agentEnv()
	for _, command := range c.file.Commands() {
		path, args, environ, err := agent.Command(command.Words, c.where.mailbin, env)
		if err != nil || !isOurs(path, "zsched/cmd/ta/") {
			continue
		}
		c.ask(agent.Spec{
			Path: path, Args: append(args, "--check"), Env: environ, Dir: c.where.transport(),
			UID: command.UID, GID: command.GID,
		}, command.Place.String()+": ")
	}
}

// isOurs reports whether a file is a program of this tree below a folder. It does not run
// the program to find out.
func isOurs(path, folder string) bool {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	info, err := buildinfo.ReadFile(path)
	return err == nil && strings.HasPrefix(info.Path, folder)
}

// own is a program that runs as this one does.
func own(path string, args ...string) agent.Spec {
	return agent.Spec{Path: path, Args: append([]string{path}, args...), Env: os.Environ(), UID: -1, GID: -1}
}

// ask runs a program that checks its options, and reports each line that it writes to its
// standard error: as errors if it fails, as warnings otherwise. place begins each line.
func (c *checker) ask(spec agent.Spec, place string) {
	var said []string
	var exited agent.Exited
	done := make(chan struct{})
	a, err := agent.Start(spec, func(events []agent.Event) {
		for _, e := range events {
			switch e := e.(type) {
			case agent.Stderr:
				said = append(said, place+strings.TrimPrefix(string(e), "# "))
			case agent.Exited:
				exited = e
				close(done)
			}
		}
	})
	if err != nil {
		c.fail(fmt.Errorf("%s%w", place, err))
		return
	}
	late := time.AfterFunc(askTimeout, func() { _ = a.Signal(unix.SIGKILL) })
	<-done
	late.Stop()
	if !exited.Clean && len(said) == 0 {
		said = []string{fmt.Sprintf("%s%s --check: %s", place, spec.Path, exited.Status)}
	}
	for _, line := range said {
		if exited.Clean {
			c.warn(line)
		} else {
			c.fail(errors.New(line))
		}
	}
}
