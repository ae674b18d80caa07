package owner

// The record of the owner of a postoffice: the text of $POSTOFFICE/.owner.

import (
	"fmt"
	"os"
	"strings"
	"time"

	"zsched/internal/process"
)

// ownerSize is the size of the file. One write of so many bytes at the start
// of a file is not torn by a power cut, because it is within one sector.
const ownerSize = 512

// Record is the line in $POSTOFFICE/.owner:
//
//	epoch 00000000000000000007 held node "mx2" host "mx2.example.org" machine 0f3c…/4026531836 pid 4711 since 2026-11-22T13:40:01Z
//
// followed by blanks, 512 bytes in all. In place of "held" it has "released" after the
// scheduler has exited.
type Record struct {
	Epoch      uint64
	Held       bool // the owner has not exited, or had no time to say so
	Node, Host string
	// Machine is what a pid belongs to: the boot of the kernel and the namespace of
	// pids.
	Machine string
	PID     int
	Since   time.Time
}

func (r *Record) String() string {
	state := "released"
	if r.Held {
		state = "held"
	}
	return fmt.Sprintf("epoch %020d %s node %q host %q machine %s pid %d since %s",
		r.Epoch, state, r.Node, r.Host, r.Machine, r.PID, r.Since.UTC().Format(time.RFC3339))
}

// encode returns the whole file.
func (r *Record) encode() ([]byte, error) {
	line := r.String()
	if len(line) >= ownerSize {
		return nil, fmt.Errorf("the names of the node and of the host have %d bytes too many", len(line)-ownerSize+1)
	}
	return []byte(line + strings.Repeat(" ", ownerSize-1-len(line)) + "\n"), nil
}

// parseOwner reads the file. An empty one is that of nobody, with epoch 0.
func parseOwner(text string) (Record, error) {
	var r Record
	if strings.Trim(text, " \n\x00") == "" {
		return r, nil
	}
	var state, since string
	_, err := fmt.Sscanf(text, "epoch %d %s node %q host %q machine %s pid %d since %s",
		&r.Epoch, &state, &r.Node, &r.Host, &r.Machine, &r.PID, &since)
	if err == nil {
		r.Since, err = time.Parse(time.RFC3339, since)
	}
	if year := r.Since.UTC().Year(); err == nil && (year < 1 || year > 9999) { // by its zone
		err = fmt.Errorf("the year is %d", year)
	}
	if err != nil {
		return r, fmt.Errorf("%.80q is not the line of an owner: %w", strings.TrimRight(text, " \n"), err)
	}
	r.Held = state != "released"
	return r, nil
}

// running returns the pid of the owner if that process still runs, otherwise 0. A scheduler
// that has just taken the lock has not written its record yet, and a child that it was
// starting when it was killed has the lock until it executes its program: neither is the
// process in the record.
func (r *Record) running() int {
	if !r.Held || r.PID <= 1 || !process.RunningSince(r.PID, r.Since) {
		return 0
	}
	return r.PID
}

// machine names what a pid belongs to. It is "-" if the system does not tell.
func machine() string {
	boot := process.BootID()
	if boot == "" {
		return "-"
	}
	space, _ := os.Readlink("/proc/self/ns/pid")
	return boot + "/" + strings.Trim(space, "pid:[]")
}
