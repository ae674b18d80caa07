package server

import (
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
	"zsched/mailq/client"
)

func TestClientReadsServersObjects(t *testing.T) {
	q := busyQueue(time.Unix(1795234572, 0))
	q.explain.Thread = q.rows[0].Thread
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		New(q, Settings{Version: 2}).Serve(t.Context(), far, Peer{})
	}()
	c, err := client.New(near, client.Options{Server: "here"})
	must(t, err)
	same(t, c, "JSON SHOW SNMP", &q.totals)
	same(t, c, "JSON SHOW QUEUE SHORT", q.rows[0].Ring, q.rows[2].Ring)
	same(t, c, "JSON SHOW QUEUE THREADS", q.rows[0].Thread, q.rows[1].Thread)
	same(t, c, "JSON SHOW THREAD smtp down.example", q.jobs[:2]...)
	same(t, c, "JSON SHOW MSG 860194", q.messages[0])
	same(t, c, "JSON EXPLAIN smtp down.example", &q.explain)
	answer, err := c.Ask("HOLD MSG 1")
	must(t, err)
	if got, err := mailq.ParseOutcome("+" + answer); err != nil || got != q.outcome {
		t.Errorf("%+v, %v from %q", got, err, answer)
	}
	must(t, c.Quit())
	<-done
}

func same[T any](t *testing.T, c *client.Client, command string, want ...*T) {
	t.Helper()
	var got []*T
	for v, err := range client.Objects[T](c.Show(command)) {
		must(t, err)
		got = append(got, v)
	}
	// Zones are written as offsets and read as another Location.
	if g, w := plain(got), plain(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", command, g, w)
	}
}

func plain(v any) string {
	var b strings.Builder
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		if at, ok := v.Interface().(time.Time); ok {
			fmt.Fprintf(&b, "@%d ", at.Unix())
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		default:
			fmt.Fprintf(&b, "%v ", v.Interface())
		}
	}
	walk(reflect.ValueOf(v))
	return b.String()
}
