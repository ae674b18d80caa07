package xfer

import (
	"testing"

	"zsched/ctlfile"
)

// Recipients of a list with many members are confirmed with lines that the other node can
// read.
func TestDoneOfManyRecipientsHasShortLines(t *testing.T) {
	var origins []ctlfile.Origin
	for i := range 20000 {
		origins = append(origins, ctlfile.Origin{Node: "mx1", SpoolID: "S1A", Offset: int64(MaxControl - i)})
	}
	var offsets []int64
	for _, d := range DoneWith(origins) {
		line := d.String()
		if len(line) >= MaxLine {
			t.Errorf("a line has %d bytes", len(line))
		}
		read, err := ParseDone(line)
		if err != nil || read.Message != "mx1/S1A" {
			t.Errorf("%+v, %v", read.Message, err)
		}
		offsets = append(offsets, read.Offsets...)
	}
	if len(offsets) != len(origins) || offsets[0] != MaxControl || offsets[len(offsets)-1] != MaxControl-19999 {
		t.Errorf("%d offsets", len(offsets))
	}
}
