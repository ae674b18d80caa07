package xfer

// The table of nodes, and the connections between them.

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"zsched/internal/process"
)

// Node is a line of the table of nodes, nodes(5):
//
//	mx1     mx1.example.org:2603
//	mx2     UNIX:/run/zmailer/xfer
type Node struct {
	Name string // the name in its certificate
	// Network and Address are as for net.Dial: "tcp" and host:port, or "unix" and
	// a path.
	Network, Address string
}

// ReadNodes reads a table of nodes.
func ReadNodes(file string) ([]Node, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the table of nodes: %w", err)
	}
	var nodes []Node
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		node, err := parseNode(words)
		if err == nil && slices.ContainsFunc(nodes, func(other Node) bool { return other.Name == node.Name }) {
			err = fmt.Errorf("node %s is there twice", node.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

func parseNode(words []string) (Node, error) {
	if len(words) != 2 {
		return Node{}, fmt.Errorf("%q is not a name and an address", strings.Join(words, " "))
	}
	// The scheduler compares hosts without their case.
	node := Node{Name: strings.ToLower(words[0])}
	if path, ok := strings.CutPrefix(words[1], "UNIX:"); ok {
		node.Network, node.Address = "unix", path
		return node, nil
	}
	if _, _, err := net.SplitHostPort(words[1]); err != nil {
		return Node{}, fmt.Errorf("%q is neither host:port nor UNIX:/path: %w", words[1], err)
	}
	node.Network, node.Address = "tcp", words[1]
	return node, nil
}

// FindNode returns the node of that name, whose case does not matter.
func FindNode(nodes []Node, name string) (Node, bool) {
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == strings.ToLower(name) })
	if i < 0 {
		return Node{}, false
	}
	return nodes[i], true
}

// Credentials are the certificate of this node and the authorities that sign those of
// the others.
type Credentials struct{ Cert, Key, CA string }

// CredentialsOf returns the files of the credentials: they lie beside the table of nodes.
func CredentialsOf(table string) Credentials {
	return Credentials{Cert: table + ".crt", Key: table + ".key", CA: table + ".ca"}
}

// load reads the files and returns the configuration for both sides. Each connection reads
// them, so that new certificates need no restart.
func (c *Credentials) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of this node: %w", err)
	}
	text, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", c.CA)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13,
		RootCAs: authorities, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
	}, nil
}

// connectTimeout is how long a connection and its handshake may take.
const connectTimeout = 30 * time.Second

// Dial connects to a node. Over TCP, its certificate has to have its name; at a UNIX
// socket, the process that listens has to be root's or our own user's.
func Dial(ctx context.Context, to Node, c *Credentials) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, to.Network, to.Address)
	if err != nil {
		return nil, err
	}
	if local, ok := conn.(*net.UnixConn); ok {
		if err := verifyUser(local); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("the process that listens at %s: %w", to.Address, err)
		}
		return conn, nil
	}
	config, err := c.load()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	config.ServerName = to.Name
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("TLS with %s: %w", to.Name, err)
	}
	return secured, nil
}

// Accept secures a connection that a node has opened. verify says whether a name is
// that of the peer: over TLS, a name in its certificate; over a UNIX socket, any name, if
// the peer is root or our own user.
func Accept(ctx context.Context, conn net.Conn, c *Credentials) (secured net.Conn, verify func(name string) error, err error) {
	if local, ok := conn.(*net.UnixConn); ok {
		if err := verifyUser(local); err != nil {
			return nil, nil, fmt.Errorf("the process that connects: %w", err)
		}
		return conn, func(string) error { return nil }, nil
	}
	config, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	server := tls.Server(conn, config)
	if err := server.HandshakeContext(ctx); err != nil {
		return nil, nil, fmt.Errorf("TLS with %s: %w", conn.RemoteAddr(), err)
	}
	leaf := server.ConnectionState().PeerCertificates[0]
	return server, leaf.VerifyHostname, nil
}

// verifyUser returns an error if the process at the other end of a UNIX socket is
// neither root's nor our own user's.
func verifyUser(conn *net.UnixConn) error {
	uid, err := process.PeerUID(conn)
	if err != nil {
		return err
	}
	if uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("it belongs to user %d, and only root and user %d may move mail here", uid, os.Geteuid())
	}
	return nil
}
