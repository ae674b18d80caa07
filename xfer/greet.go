package xfer

// The beginning of a connection: each node says who it is and which version it has.

import (
	"bufio"
	"fmt"
	"net"
	"strings"
)

// checkVersion returns an error if the other node has another version of the protocol
// than this one.
func checkVersion(node, version string) error {
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
	if err := checkVersion("it", words[3]); err != nil {
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

// AwaitGreeting is the other side of Greet. verify says whether a name is that of the peer
// (Accept), and nodes are those that may push.
func AwaitGreeting(conn net.Conn, in *bufio.Reader, self string, verify func(name string) error, nodes []Node) error {
	if _, err := fmt.Fprintf(conn, "%d %s xfer %s\n", Greeting, self, Version); err != nil {
		return err
	}
	line, err := ReadLine(in)
	if err != nil {
		return err
	}
	words := strings.Fields(line)
	switch {
	case len(words) < 2 || words[0] != "LHLO":
		return fmt.Errorf("%.100q instead of LHLO: %w", line, ErrLine)
	case len(words) != 4 || words[2] != "xfer":
		words = []string{"LHLO", words[1], "xfer", "1"} // which did not name itself
	}
	name := words[1]
	if err := checkVersion(name, words[3]); err != nil {
		return err
	}
	if _, known := FindNode(nodes, name); !known {
		return fmt.Errorf("this node does not take mail from %.200q, which is not in the table of nodes", name)
	}
	if err := verify(name); err != nil {
		return fmt.Errorf("this node does not take mail from a peer that says that it is %.200q: %w", name, err)
	}
	_, err = fmt.Fprintf(conn, "%d %s\n", Accepted, self)
	return err
}
