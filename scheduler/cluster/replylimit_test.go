package cluster

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"zsched/internal/redisurl"
)

func TestRepliesAreLimited(t *testing.T) {
	for _, c := range []struct {
		reply string
		good  bool
	}{
		{"+OK\r\n:1\r\n-ERR no\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n", true},
		{"*2\r\n$3\r\n*\r\n\r\n*1\r\n:5\r\n", true},
		{strings.Repeat("*3\r\n:1\r\n*1\r\n:2\r\n$1\r\n*\r\n", 20_000), true},
		{"|1\r\n+ttl\r\n:5\r\n%1\r\n+a\r\n*2\r\n|0\r\n:1\r\n|1\r\n+b\r\n+c\r\n:2\r\n" + strings.Repeat("*1\r\n", 16) + ":1\r\n", true},
		{"$1000000\r\n" + strings.Repeat("*", 1_000_000) + "\r\n", true},
		{"*200000000\r\n", false},
		{"%100000\r\n", false},
		{"$200000000\r\n", false},
		{"!200000000\r\n", false},
		{"=99999999999999999999999\r\n", false},
		{"*00000000000000000000000000000000200000000\r\n", false},
		{"*-2\r\n", false},
		{"*?\r\n", false},
		{"$\r\n", false},
		{strings.Repeat("*1\r\n", 17), false},
		{strings.Repeat("*1000\r\n", 17), false},
		{strings.Repeat("*100000\r\n", 2), false},
		{strings.Repeat("$9000000\r\n"+strings.Repeat("x", 9_000_000)+"\r\n", 2), false},
		{"+" + strings.Repeat("x", maxReplyLine), false},
		{"(" + strings.Repeat("9", maxReplyLine), false},
	} {
		for _, size := range []int{1, 7, 4096, len(c.reply)} {
			var l replyLimit
			for rest := c.reply; rest != ""; {
				n := min(size, len(rest))
				_ = l.read([]byte(rest[:n]))
				rest = rest[n:]
			}
			if c.good != (l.err == nil) {
				t.Errorf("%.40q, %d at a time: %v", c.reply, size, l.err)
			}
			if c.good && (len(l.open) > 0 || l.skip > 0 || l.length > 0) {
				t.Errorf("%.40q, %d at a time: %+v", c.reply, size, l)
			}
		}
	}
}

// A server that answers every packet with the beginning of an endless list is a store
// that is lost, and takes no memory.
func TestHostileStoreTakesNoMemory(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for b := make([]byte, 4096); err == nil; {
					if _, err = c.Read(b); err == nil {
						_, err = io.WriteString(c, "*200000000\r\n")
					}
				}
			}()
		}
	}()
	s := openStore(Options{Store: redisurl.Address{Addrs: []string{listener.Addr().String()}}, Prefix: "p", Timeout: time.Minute})
	defer s.client.Close()
	defer s.reader.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3 {
		a := s.carryOut(context.Background(), &batch{calls: []call{{script: destinationScript}}})
		if a.err == nil || !strings.Contains(a.err.Error(), "exceeds the limit") {
			t.Errorf("the error is %v", a.err)
		}
	}
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 64 {
		t.Errorf("%d MB were allocated", mb)
	}
}
