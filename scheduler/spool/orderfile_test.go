package spool

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// Orders that wait at a stop are read as they were written, except those on mail that is gone.
func TestPendingOrders(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.write("transport/12", "")
	orders := []PendingOrder{
		{ID: 12, ModifiedAt: time.Unix(5, 7), Path: "12", Verb: "KILL", Channel: "smtp", Host: "a \xff\"b", Offsets: []int64{100, 200}, By: "root", Why: "one\ntwo"},
		{ID: 12, ModifiedAt: time.Unix(5, 7), Path: "12", Verb: "REROUTE", Channel: "smtp", Host: "", To: Thread{"local", "x y"}},
	}
	gone := PendingOrder{ID: 13, ModifiedAt: time.Unix(5, 7), Path: "13", Verb: "KILL", Channel: "smtp", Host: "c"}
	check(t, o.s.SavePendingOrders(append(orders, gone)))
	read, err := o.s.PendingOrders()
	if check(t, err); !reflect.DeepEqual(read, orders) {
		t.Errorf("read %+v", read)
	}
	check(t, o.s.SavePendingOrders([]PendingOrder{gone}))
	if _, err := os.Stat(filepath.Join(o.dir, pendingFile)); !os.IsNotExist(err) {
		t.Errorf("with no order: %v", err)
	}
}

// A line that is damaged takes no other with it.
func TestDamagedPendingOrder(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	o.write(pendingFile, "12 5 \"12\" \"KILL\" \"sm\n13 5 \"13\" \"KILL\" \"smtp\" \"c\" \"\" \"\" \"\" \"\" \"\"\n")
	read, err := o.s.PendingOrders()
	if err == nil || len(read) != 1 || read[0].ID != 13 {
		t.Errorf("%+v, %v", read, err)
	}
}
