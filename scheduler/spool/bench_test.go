package spool

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// fill makes n messages two directories deep and returns their names.
func (o *testSpool) fill(n int) []Name {
	o.t.Helper()
	names := make([]Name, n)
	for i := range names {
		id := uint64(1000000 + i)
		base := strconv.FormatUint(id, 10)
		names[i] = Name{ctlfile.HashDir(id, 2) + base, id}
		if i < 26*26 {
			o.mkdir("transport/" + ctlfile.HashDir(id, 2))
			o.mkdir("queue/" + ctlfile.HashDir(id, 2))
		}
		text := []byte(control(base, toBob))
		check(o.t, os.WriteFile(filepath.Join(o.dir, "transport", names[i].Path), text, 0o640))
		check(o.t, os.WriteFile(filepath.Join(o.dir, "queue", names[i].Path), text, 0o640))
	}
	return names
}

// The floor is what the system asks for in any case, in one plain loop: per
// message open, fstat, read, close the control file and stat the message.
func BenchmarkLoadFloor(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(10000)
	transport, err := postoffice.OpenDir(postoffice.WorkingDir, filepath.Join(o.dir, "transport"))
	check(b, err)
	defer unix.Close(transport)
	queue, err := postoffice.OpenDir(postoffice.WorkingDir, filepath.Join(o.dir, "queue"))
	check(b, err)
	defer unix.Close(queue)
	buf := make([]byte, 64<<10)
	var st unix.Stat_t
	i := 0
	for b.Loop() {
		path := names[i%len(names)].Path
		i++
		fd, err := unix.Openat(transport, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		check(b, err)
		check(b, unix.Fstat(fd, &st))
		_, err = unix.Read(fd, buf[:st.Size])
		check(b, err)
		unix.Close(fd)
		check(b, unix.Fstatat(queue, path, &st, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// drain reads results until n of them are of this type.
func drain[T Result](b *testing.B, s *Spool, n int) {
	for n > 0 {
		for _, r := range <-s.Results() {
			switch r := r.(type) {
			case T:
				n--
			case Refused, Warning:
				b.Fatalf("%+v", r)
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(10000)
	for _, loaders := range []int{1, 2, 4} {
		b.Run("loaders="+strconv.Itoa(loaders), func(b *testing.B) {
			o.open(Options{Workers: loaders})
			b.ReportAllocs()
			b.ResetTimer()
			// A few batches under way at any time, as from a sweep.
			asked, answered := 0, 0
			for answered < b.N {
				for asked < b.N && asked-answered <= 4*batchLimit {
					at := asked % len(names)
					n := min(batchLimit, len(names)-at, b.N-asked)
					o.s.Load(names[at : at+n])
					asked += n
				}
				for _, r := range <-o.s.Results() {
					switch r := r.(type) {
					case Loaded:
						answered++
					case Refused, Warning:
						b.Fatalf("%+v", r)
					}
				}
			}
		})
	}
}

func BenchmarkFinishFloor(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(b.N)
	transport := filepath.Join(o.dir, "transport") + "/"
	queue := filepath.Join(o.dir, "queue") + "/"
	b.ResetTimer()
	for _, n := range names {
		check(b, unix.Unlink(transport+n.Path))
		check(b, unix.Unlink(queue+n.Path))
	}
}

func BenchmarkFinish(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(b.N)
	o.open(Options{})
	b.ReportAllocs()
	b.ResetTimer()
	for i, n := range names {
		o.s.Finish(scheduler.Finish{Op: scheduler.Op(i), Path: n.Path})
	}
	drain[Answered](b, o.s, len(names))
}

// A mark without a d line, as for each recipient where agents leave the
// marking to the scheduler.
func BenchmarkMark(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(b.N)
	at := offset(b, control("1000000", toBob), "bob@b")
	o.open(Options{})
	b.ReportAllocs()
	b.ResetTimer()
	for i, n := range names {
		o.s.Mark(uint64(i), n.Path, []ctlfile.Mark{{Offset: at, Tag: ctlfile.Delivered}})
	}
	drain[Answered](b, o.s, b.N)
}

// From Open to the first batch with this many files at the top of transport/.
func BenchmarkFirstBatch(b *testing.B) {
	for _, n := range []int{100, 10000, 100000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			o := newTestSpool(b)
			for i := range n {
				check(b, os.WriteFile(filepath.Join(o.dir, "transport", strconv.Itoa(1000000+i)), nil, 0o640))
			}
			for b.Loop() {
				o.open(Options{})
				<-o.s.Found()
				b.StopTimer()
				o.close()
				b.StartTimer()
			}
		})
	}
}

// From datagram to Loaded on an idle spool.
func BenchmarkNotified(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(1000)
	o.open(Options{})
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	check(b, err)
	defer unix.Close(socket)
	for swept := false; !swept; {
		select {
		case <-o.s.Found():
		case results := <-o.s.Results():
			for _, r := range results {
				_, over := r.(Swept)
				swept = swept || over
			}
		}
	}
	check(b, unix.Connect(socket, &unix.SockaddrUnix{Name: filepath.Join(o.dir, ".scheduler.notify")}))
	worst := time.Duration(0)
	i := 0
	for b.Loop() {
		startedAt := time.Now()
		_, err := unix.Write(socket, []byte("NEW "+names[i%len(names)].Path))
		check(b, err)
		i++
		o.s.Load(<-o.s.Found())
		<-o.s.Results()
		worst = max(worst, time.Since(startedAt))
	}
	b.ReportMetric(float64(worst.Microseconds()), "µs-worst")
}

// BenchmarkAll reads 10000 messages.
func BenchmarkAll(b *testing.B) {
	o := newTestSpool(b)
	names := o.fill(10000)
	o.open(Options{})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range o.s.Files().All(b.Context(), Queue) {
			check(b, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(len(names)), "µs/message")
}
