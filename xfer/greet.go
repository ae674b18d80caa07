package xfer

// The beginning of a connection, and the question which recipients a node has.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"zsched/ctlfile"
)

// ReadLine reads a line without its LF. The line has at most the size of the buffer, which
// is to be MaxLine, so that the other side cannot make this one use more memory.
func ReadLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("it sends a line of more than %d bytes, which begins with %.100q", MaxLine, line)
	case err != nil:
		return "", err
	}
	return string(line[:len(line)-1]), nil
}

// CheckVersion returns an error if the other node has another version of the protocol
// than this one.
func CheckVersion(node, version string) error {
	if version == Version {
		return nil
	}
	return fmt.Errorf("%s has version %.20s of the protocol xfer and this node has version %s: mail waits here until both nodes have the same version of these programs",
		node, version, Version)
}

// Greet introduces this node on a new connection, and checks the version of the other one.
func Greet(conn net.Conn, in *bufio.Reader, self string) error {
	line, err := ReadLine(in)
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	if len(words) != 4 || words[0] != fmt.Sprint(Greeting) || words[2] != "xfer" {
		return fmt.Errorf("it answers %.200q", line)
	}
	if err := CheckVersion("it", words[3]); err != nil {
		return err
	}
	if _, err = fmt.Fprintf(conn, "LHLO %s xfer %s\n", self, Version); err != nil {
		return err
	}
	if line, err = ReadLine(in); err == nil && !strings.HasPrefix(line, fmt.Sprint(Accepted, " ")) {
		err = fmt.Errorf("it answers %.200q", line)
	}
	return err
}

// ParseLHLO reads the line with which a node introduces itself. Version 1 did not name its
// version.
func ParseLHLO(line string) (node, version string, err error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 2 && words[0] == "LHLO":
		return words[1], "1", nil
	case len(words) == 4 && words[0] == "LHLO" && words[2] == "xfer":
		return words[1], words[3], nil
	}
	return "", "", fmt.Errorf("%.100q instead of LHLO: %w", line, ErrLine)
}

// askTimeout bounds a question to another node.
const askTimeout = 30 * time.Second

// Taken asks a node which of these recipients, which were on their way to it, it has, and
// returns their IDs. The others will not arrive there from an earlier push. self is the name
// of this node. Without recipients, Taken finds out whether the node answers.
func Taken(ctx context.Context, to Node, c *Credentials, self string, origins []ctlfile.Origin) (taken map[string]bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := Dial(ctx, to, c)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	in := bufio.NewReaderSize(conn, MaxLine)
	if err := Greet(conn, in, self); err != nil {
		return nil, err
	}
	questions := DoneWith(origins)
	go func() {
		out := bufio.NewWriter(conn)
		for i, d := range questions {
			have := Have{uint64(i + 1), d}
			_, _ = out.WriteString(have.String() + "\n")
		}
		_, _ = out.WriteString("QUIT\n")
		_ = out.Flush() // after an error, no answer comes
	}()
	taken = make(map[string]bool)
	for range questions {
		line, err := ReadLine(in)
		if err != nil {
			return nil, err
		}
		reply, err := ParseReply(line)
		if err != nil {
			return nil, err
		}
		if reply.Code != Accepted || reply.Tag == 0 || reply.Tag > uint64(len(questions)) {
			return nil, fmt.Errorf("it answers %.200q", line)
		}
		for _, offset := range reply.Taken {
			taken[questions[reply.Tag-1].ID(offset)] = true
		}
	}
	return taken, nil
}
