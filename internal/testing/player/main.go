// Player is the agents of tests of the scheduler. It is a program of its own because one as
// large as a test binary takes twice the time to start.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"zsched/ta"
)

func main() {
	if filepath.Base(os.Args[0]) == "asker" {
		ask()
		return
	}
	play()
}

// play is the agent player. Its operand says what it does with a recipient:
// ok, error or defer at once; "dead" defers because the destination has failed; "gate FILE" delivers when the file exists;
// "unless FILE" defers unless it does; "env FILE" writes its environment there
// and delivers; "peer" delivers and names the host that it has talked to.
func play() {
	args := os.Args[1:]
	s := ta.Server{Name: "player"}
	if len(args) > 1 && args[0] == "-c" {
		s.Channel, args = args[1], args[2:]
	}
	s.Deliver = func(m *ta.Message) {
		status, text := ta.OK, "250 played"
		var fields ta.Fields
		switch args[0] {
		case "error":
			status, text = ta.Error, "550 the player does not want it"
		case "peer":
			fields = ta.Fields{Code: "2.6.0", Remote: "dns; mx.x.example (192.0.2.7)"}
		case "defer":
			status = ta.Deferred
		case "dead":
			status, text, fields = ta.Deferred, "the player finds no way", ta.Fields{Code: "4.4.1"}
		case "unless":
			if _, err := os.Stat(args[1]); err != nil {
				status, text = ta.Deferred, "451 the player has no time"
			}
		case "gate":
			// A player whose test was killed ends by itself.
			for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(5 * time.Millisecond) {
				if _, err := os.Stat(args[1]); err == nil {
					break
				}
			}
		case "env":
			os.WriteFile(args[1], []byte(strings.Join(os.Environ(), "\n")+"\n"), 0o644)
		}
		m.ReportRest(func(*ta.Recipient) ta.Result { return ta.Result{Status: status, Text: text, Fields: fields} })
	}
	ctx, stop := s.Standard()
	defer stop()
	if err := s.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		os.Exit(1)
	}
}

// ask is the agent asker, with a socket and a number of sessions. It asks at the
// socket about each job line, and reports the answer.
func ask() {
	sessions, err := strconv.Atoi(os.Args[2])
	if err != nil {
		os.Exit(2)
	}
	s := ta.Server{Name: "asker", Sessions: sessions}
	s.Deliver = func(m *ta.Message) {
		result := ta.Result{Status: ta.Deferred, Text: "451 the test has ended"}
		conn, err := net.Dial("unix", os.Args[1])
		if err == nil {
			defer conn.Close()
			fmt.Fprintln(conn, m.ID, m.Recipients[0].RouteHost())
			switch answer, _ := bufio.NewReader(conn).ReadString('\n'); strings.TrimSpace(answer) {
			case "ok":
				result = ta.Result{Status: ta.OK, Text: "250 as you say"}
			case "deferall":
				result = ta.Result{Status: ta.DeferAll, Text: "421 nobody is at home"}
			}
		}
		m.ReportRest(func(*ta.Recipient) ta.Result { return result })
	}
	ctx, stop := s.Standard()
	defer stop()
	if err := s.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "asker:", err)
		os.Exit(1)
	}
}
