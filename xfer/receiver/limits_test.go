package receiver

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
	"zsched/xfer"
)

// TestMessageThatIsTooLargeIsRefusedBeforeItIsRead: and the connection goes on.
func TestMessageThatIsTooLargeIsRefusedBeforeItIsRead(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{MaxSize: 1000}, "552 5 the message has 1001 bytes, and this node takes at most 1000"},
		{Options{MinFree: 1 << 62}, "452 5 the message has 1001 bytes, and "},
	} {
		n := newTarget(t, c.o)
		p := n.connect("n2")
		push := xfer.Push{Tag: 5, Control: 10, Message: 1001}
		if said := p.ask("%s\n", push.String()); !strings.HasPrefix(said, c.want) {
			t.Errorf("the reply is %q, not %q", said, c.want)
		}
		names, err := os.ReadDir(filepath.Join(n.office, "queue", stagedDir))
		if err != nil || len(names) != 0 {
			t.Errorf("there are %d files, %v", len(names), err)
		}
		if said := p.ask("%sHAVE 6 n2/S1A 109\n", strings.Repeat("x", 1011)); said != "250 6 " {
			t.Errorf("after that, the reply is %q", said)
		}
	}
}

// fillingDisk is a message. The disk is full when its first part has been read.
type fillingDisk struct {
	t     *testing.T
	disk  *memdisk.Disk
	file  *postoffice.File
	reads int
}

func (r *fillingDisk) Read(b []byte) (int, error) {
	r.reads++
	info, err := r.file.Stat()
	check(r.t, err)
	switch {
	case r.reads == 2:
		if info.Size() == 0 {
			r.t.Error("nothing is written")
		}
		r.disk.SetFaults(memdisk.Faults{Space: r.disk.Used()})
	case r.reads > 2 && info.Size() > 0:
		r.t.Errorf("after the error, the file has %d bytes", info.Size())
	}
	return len(b), nil
}

// TestFileIsEmptiedWhenTheDiskIsFull: the rest of the message may come slowly.
func TestFileIsEmptiedWhenTheDiskIsFull(t *testing.T) {
	office := filepath.Join(t.TempDir(), "po")
	disk := memdisk.New(office, os.Geteuid(), rand.New(rand.NewPCG(1, 2)))
	defer postoffice.Mount(office, disk)()
	for _, dir := range []string{"transport", "queue"} {
		check(t, postoffice.MakeDir(postoffice.WorkingDir, filepath.Join(office, dir), 0o755))
	}
	s, err := OpenStore(Options{Postoffice: office})
	check(t, err)
	defer s.Close()
	a, err := s.create(xfer.Push{Message: 1 << 20})
	check(t, err)
	defer s.release(a)
	message := &fillingDisk{t: t, disk: disk, file: a.message}
	fileErr, err := s.read(a, message)
	if fileErr == nil || err != nil || message.reads < 4 {
		t.Errorf("after %d reads: %v, %v", message.reads, fileErr, err)
	}
}

// slowNode sends some bytes each minute.
type slowNode int

func (n slowNode) Read(b []byte) (int, error) {
	time.Sleep(time.Minute)
	return min(len(b), int(n)), nil
}

// TestPushNeedsALeastRate: a node cannot occupy the disk with a message that never ends.
func TestPushNeedsALeastRate(t *testing.T) {
	for _, c := range []struct {
		aMinute slowNode
		rate    int64
		slow    bool
	}{{1, 1, true}, {59, 1, true}, {60, 1, false}, {1000, 1, false}, {1, 0, false}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			in := paced(c.aMinute, c.rate)
			_, err := io.CopyN(io.Discard, in, 60*int64(c.aMinute)) // an hour
			if errors.Is(err, errSlow) != c.slow || c.slow && time.Since(began) != ratePeriod {
				t.Errorf("%d bytes a minute, least rate %d: %v after %v", c.aMinute, c.rate, err, time.Since(began))
			}
		})
	}
}

// TestSlowPushLeavesNoFile: the receiver measures the rate of each push.
func TestSlowPushLeavesNoFile(t *testing.T) {
	s := newStore(t)
	synctest.Test(t, func(t *testing.T) {
		r := New(s)
		r.MinRate = 1
		c := &connection{receiver: r, in: bufio.NewReader(slowNode(1))}
		if err := c.push(xfer.Push{Message: 1000}); !errors.Is(err, errSlow) {
			t.Errorf("the error is %v", err)
		}
	})
	if names, err := os.ReadDir(s.messages); err != nil || len(names) != 0 {
		t.Errorf("there are %d files, %v", len(names), err)
	}
}
