package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zsched/ctlfile"
	"zsched/internal/zenv"
	child "zsched/scheduler/agent"
	"zsched/scheduler/config"
)

// TestAgentsLearnWhetherErrorsAreStored: errormail does what the scheduler does, and a
// reload counts for the agents that are started after it.
func TestAgentsLearnWhetherErrorsAreStored(t *testing.T) {
	m := newMoves(new(zenv.File), "mx1", new(config.Params))
	for _, want := range []string{"", "yes", ""} {
		m.reload(&config.Params{StoreErrorOnError: want != ""})
		_, _, env, err := child.Command([]string{"errormail"}, "/bin", m.agentEnv())
		if got := slices.Contains(env, "STOREERRORS=yes"); err != nil || got != (want != "") {
			t.Errorf("%q: the environment is %q, %v", want, env, err)
		}
	}
}

// TestNodeThatDoesNotAnswerIsNotAskedForEachMessage: after a failure, questions about
// further messages fail at once, until an order finds that the node answers.
func TestNodeThatDoesNotAnswerIsNotAskedForEachMessage(t *testing.T) {
	dir := t.TempDir()
	socket, table := filepath.Join(dir, "socket"), filepath.Join(dir, "nodes")
	if err := os.WriteFile(table, []byte("mx2 UNIX:"+socket+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := newMoves(new(zenv.File), "mx1", &config.Params{XferNodes: table})
	origins := []ctlfile.Origin{{Node: "mx1", SpoolID: "S1A", Offset: 5}}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connections := make(chan string, 10)
	greeting := "451 0 later\n"
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections <- greeting
			_, _ = io.WriteString(conn, greeting)
			conn.Close()
		}
	}()
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.answers(canceled, "mx2"); err == nil { // says nothing about the node
		t.Error("it answers a question that was given up")
	}
	for range 5 {
		if _, err := m.taken(context.Background(), "mx2", origins); err == nil {
			t.Fatal("it has answered")
		}
	}
	if err := m.answers(context.Background(), "MX2"); err == nil {
		t.Error("it answers")
	}
	if n := len(connections); n != 2 {
		t.Errorf("%d connections", n)
	}
	if taken, err := m.taken(context.Background(), "mx9", origins); err != nil || len(taken) != 0 {
		t.Errorf("a node that is not in the table: %v, %v", taken, err)
	}
}
