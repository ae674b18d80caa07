// Peer is an SMTP server for the demonstration. It accepts every message, offers
// STARTTLS, and prints what it got when it ends.
//
//	peer certificate.pem
//
// The first line of its output is the address it listens at. Its certificate,
// for the name "localhost", is written to the file.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"zsched/ta/smtp/smtptest"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: peer certificate.pem")
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	if err := serve(args[0], stdout, signals); err != nil {
		fmt.Fprintln(stderr, "peer:", err)
		return 1
	}
	return 0
}

func serve(file string, stdout io.Writer, signals <-chan os.Signal) error {
	tls, text, err := smtptest.Certificate("localhost")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	peer, err := smtptest.Serve(smtptest.Options{TLS: tls})
	if err != nil {
		return err
	}
	defer peer.Close()
	fmt.Fprintln(stdout, peer.Addr)
	<-signals
	for _, m := range peer.Messages() {
		how := "in the clear"
		if m.TLS {
			how = "over TLS"
		}
		fmt.Fprintf(stdout, "%d bytes from %s to %s, connection %d, %s\n", len(m.Data), m.From, m.Recipients, m.Conn, how)
	}
	return nil
}
