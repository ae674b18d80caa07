package queue

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
)

// office is a postoffice in memory.
const office = "/copies"

// copiesOnDisk makes the postoffice, and a committer of copies in it, until unmount is called.
func copiesOnDisk(t *testing.T, levels int) (d *memdisk.Disk, c *Committer, unmount func()) {
	t.Helper()
	d = memdisk.New(office, os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
	restore := postoffice.Mount(office, d)
	for _, dir := range []string{"queue", "transport"} {
		equal(t, dir, postoffice.MakeDir(postoffice.WorkingDir, office+"/"+dir, 0o755), nil)
	}
	c, err := OpenCopies(office, levels)
	equal(t, "open", err, nil)
	return d, c, func() {
		c.Close()
		restore()
	}
}

// stagedItem is a copy whose message file is complete.
func stagedItem(t *testing.T) Item {
	t.Helper()
	file, err := postoffice.CreateTemp(office, "copy-")
	equal(t, "create", err, nil)
	_, err = file.Write([]byte(message))
	equal(t, "write", errors.Join(err, file.Close()), nil)
	return Item{Contents: contentsFor(message), Message: file.Name(), Source: "S1XMVQKNOA"}
}

// A copy that counts and finds no room for its name, or whose message is out of sight, is left for later,
// and no start ends because of it.
func TestCopyWithoutRoomOrMessageIsFinishedLater(t *testing.T) {
	d, c, unmount := copiesOnDisk(t, 0)
	defer unmount()
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
	if err != nil || len(left) != 1 || left[0].String() != name {
		t.Fatalf("without room: %q, %v", left, err)
	}
	if err := c.FinishLeft(left[0]); !postoffice.IsNoRoom(err) {
		t.Fatalf("still without room: %v", err)
	}
	d.SetFaults(memdisk.Faults{})
	equal(t, "move queue/", postoffice.Publish(office+"/queue", office+"/away"), nil)
	for i := range 2 {
		if err := c.FinishLeft(left[0]); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("without queue/: %v", err)
		}
		if again, err := c.Finish(counts); err != nil || !slices.Equal(again, left) {
			t.Fatalf("at a start without queue/, or with an empty one: %q, %v", again, err)
		}
		if i == 0 {
			equal(t, "make queue/", postoffice.MakeDir(postoffice.WorkingDir, office+"/queue", 0o755), nil)
		}
	}
	equal(t, "back", postoffice.Publish(office+"/away/"+strconv.FormatUint(number, 10), message), nil)
	equal(t, "with room and message", c.FinishLeft(left[0]), nil)
	if !postoffice.Exists(postoffice.WorkingDir, control) || !postoffice.Exists(postoffice.WorkingDir, message) {
		t.Error("the copy is not in the queue")
	}
	left, err = c.Finish(counts)
	if err != nil || len(left) > 0 {
		t.Errorf("in the end: %q, %v", left, err)
	}
}

// A copy that does not count and cannot be removed is told to the caller, who tries again: left alone, it
// would count when its source is gone.
func TestCopyThatCannotBeRemovedIsTriedAgain(t *testing.T) {
	for _, at := range []string{"unlink transport/.scheduler", "unlink queue", "away"} {
		d, c, unmount := copiesOnDisk(t, 0)
		c.Claim = func(items []*Item) error {
			items[0].Err = errors.New("not claimed")
			if at == "away" {
				return postoffice.Publish(office+"/transport", office+"/away")
			}
			d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EIO, At: at})
			return nil
		}
		i := stagedItem(t)
		c.Commit([]*Item{&i})
		if i.Left == nil || c.FinishLeft(*i.Left) == nil {
			t.Fatalf("%s: %v is left", at, i.Left)
		}
		d.SetFaults(memdisk.Faults{})
		if at == "away" {
			equal(t, "back", postoffice.Publish(office+"/away", office+"/transport"), nil)
		}
		equal(t, "finish", c.FinishLeft(*i.Left), nil)
		if files := d.Files("/"); len(files) > 0 {
			t.Errorf("%s: %q", at, files)
		}
		unmount()
	}
}

// A copy whose message cannot be looked at when it is in queue/ leaves nothing.
func TestCopyThatIsMovedWithAnErrorIsUndone(t *testing.T) {
	d, c, unmount := copiesOnDisk(t, 0)
	defer unmount()
	c.Step = func(step string) {
		if strings.HasPrefix(step, "move message") {
			d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EIO, At: "stat queue/"})
		}
	}
	i := stagedItem(t)
	c.Commit([]*Item{&i})
	if files := d.Files("/"); !errors.Is(i.Err, unix.EIO) || i.Moved || len(files) > 0 {
		t.Errorf("%v, moved %t, %q are left", i.Err, i.Moved, files)
	}
}

// Whatever call of a commit is the first that fails, and all after it do, the copy counts and gets its
// name later, or nothing of it is left in the end.
func TestCopyIsWholeOrGoneAfterEachFault(t *testing.T) {
	for after, failed := 0, true; failed; after++ {
		d, c, unmount := copiesOnDisk(t, 1)
		c.Claim = func([]*Item) error { return nil }
		i := stagedItem(t)
		d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EIO, After: after})
		c.Commit([]*Item{&i})
		failed = d.Failed() > 0
		d.SetFaults(memdisk.Faults{})
		if i.Claimed {
			c.Publish([]*Item{&i})
		}
		if i.Left != nil {
			equal(t, "finish", c.FinishLeft(*i.Left), nil)
		}
		if !i.Claimed {
			_ = postoffice.RemovePath(i.Message) // as its maker does
		}
		files := d.Files("/")
		if i.Claimed && (i.Path == "" || len(files) != 2) || !i.Claimed && len(files) > 0 {
			t.Errorf("after %d calls: %v, claimed %t, %q, %q are left", after, i.Err, i.Claimed, i.Path, files)
		}
		unmount()
	}
}

// A hash directory of transport/ that somebody has removed is made again.
func TestCopyMakesItsHashDirectory(t *testing.T) {
	office := newPostoffice(t)
	c, err := OpenCopies(office, 1)
	equal(t, "open", err, nil)
	defer c.Close()
	equal(t, "staging", c.MakeStaging(), nil)
	file, number := inRouter(t, office)
	info, err := os.Lstat(file)
	equal(t, "stat", err, nil)
	dir := ctlfile.HashDir(number, 1)
	_, err = postoffice.MakeQueueDir(office, "queue", dir)
	equal(t, "hash directory", err, nil)
	base := dir + strconv.FormatUint(number, 10)
	equal(t, "move", os.Rename(file, filepath.Join(office, "queue", base)), nil)
	name := ctlfile.SpoolID(number, info.ModTime()) + "," + ctlfile.SpoolID(1, time.Unix(1, 0))
	equal(t, "stage", os.WriteFile(filepath.Join(c.StagingDir(), name), []byte("control"), 0o600), nil)
	left, err := c.Finish(func(string, string) (bool, error) { return true, nil })
	if err != nil || len(left) > 0 {
		t.Fatalf("%v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(office, "transport", base)); err != nil {
		t.Error(err)
	}
}
