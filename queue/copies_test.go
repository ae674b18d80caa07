package queue

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
)

// A copy that counts and finds no room for its name is left for later, and no start ends because of it.
func TestCopyWithoutRoomIsFinishedLater(t *testing.T) {
	const office = "/copies"
	d := memdisk.New(office, os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
	defer postoffice.Mount(office, d)()
	for _, dir := range []string{"queue", "transport"} {
		equal(t, dir, postoffice.MakeDir(postoffice.WorkingDir, office+"/"+dir, 0o755), nil)
	}
	c, err := OpenCopies(office, 0)
	equal(t, "open", err, nil)
	defer c.Close()
	equal(t, "staging", c.MakeStaging(), nil)
	equal(t, "message", postoffice.WriteFile(postoffice.WorkingDir, office+"/queue/copy", []byte("mail"), true), nil)
	info, err := postoffice.Lstat(office + "/queue/copy")
	equal(t, "stat", err, nil)
	number := info.Sys().(*syscall.Stat_t).Ino
	message, control := office+"/queue/"+strconv.FormatUint(number, 10), office+"/transport/"+strconv.FormatUint(number, 10)
	equal(t, "move", postoffice.Publish(office+"/queue/copy", message), nil)
	name := ctlfile.SpoolID(number, info.ModTime()) + "," + ctlfile.SpoolID(1, time.Unix(1, 0))
	equal(t, "stage", postoffice.WriteFile(postoffice.WorkingDir, c.StagingDir()+"/"+name, []byte("control"), true), nil)

	counts := func(string, string) (bool, error) { return true, nil }
	d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.ENOSPC, At: "rename transport/.scheduler"})
	left, err := c.Finish(counts)
	if err != nil || !slices.Equal(left, []string{name}) {
		t.Fatalf("without room: %q, %v", left, err)
	}
	if err := c.FinishClaimed(name); !postoffice.IsNoRoom(err) {
		t.Fatalf("still without room: %v", err)
	}
	d.SetFaults(memdisk.Faults{})
	equal(t, "with room", c.FinishClaimed(name), nil)
	if !postoffice.Exists(postoffice.WorkingDir, control) || !postoffice.Exists(postoffice.WorkingDir, message) {
		t.Error("the copy is not in the queue")
	}
	left, err = c.Finish(counts)
	if err != nil || len(left) > 0 {
		t.Errorf("in the end: %q, %v", left, err)
	}
}
