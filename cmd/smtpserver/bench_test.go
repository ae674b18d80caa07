package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/smtp"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkMessages sends small messages over open sessions.
func BenchmarkMessages(b *testing.B) {
	for _, sessions := range []int{1, 20} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			p := newPlace(b, "domain ours.example\nrouter-max 0\n")
			_, address := p.start()
			work := make(chan bool)
			var clients sync.WaitGroup
			for range sessions {
				c, err := smtp.Dial(address)
				if err != nil {
					b.Fatal(err)
				}
				clients.Go(func() {
					defer c.Close()
					for range work {
						if err := send(c); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- true
			}
			close(work)
			clients.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

func send(c *smtp.Client) error {
	_, err := sendTo(c, "b@ours.example")
	return err
}

// sendTo sends a message. ending is just before the final dot.
func sendTo(c *smtp.Client, to string) (ending time.Time, err error) {
	if err = c.Mail("a@client.example"); err == nil {
		err = c.Rcpt(to)
	}
	if err != nil {
		return ending, err
	}
	w, err := c.Data()
	if err != nil {
		return ending, err
	}
	_, _ = w.Write(bytes.Repeat([]byte("text of a small message\r\n"), 80))
	ending = time.Now()
	return ending, w.Close()
}

// BenchmarkMemory reports the memory of a server with 500 sessions that are
// within a message.
func BenchmarkMemory(b *testing.B) {
	p := newPlace(b, "domain ours.example\nmax-sessions 1000\n") // local clients have half
	server, address := p.start()
	for range 500 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		in := bufio.NewReader(conn)
		fmt.Fprint(conn, "HELO x\r\nMAIL FROM:<a@client.example>\r\nRCPT TO:<b@ours.example>\r\nDATA\r\n")
		for line := ""; !strings.HasPrefix(line, "354"); {
			if line, err = in.ReadString('\n'); err != nil {
				b.Fatal(err)
			}
		}
		fmt.Fprint(conn, strings.Repeat("text\r\n", 1000))
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmRSS:")
	var kilobytes float64
	_, _ = fmt.Sscan(after, &kilobytes)
	for b.Loop() {
	}
	b.ReportMetric(kilobytes/1024, "MB")
}
