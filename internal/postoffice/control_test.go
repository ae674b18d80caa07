package postoffice

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is a user who has no rights.
const nobody = 65534

// transport is a directory with a control file in it that nobody owns.
type transport struct {
	Control
	t   *testing.T
	dir string
	fd  int
}

const controlText = "i 7\n"

func newTransport(t *testing.T) *transport {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to take files over")
	}
	tr := &transport{t: t, dir: t.TempDir()}
	var err error
	if tr.fd, err = unix.Open(tr.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(tr.fd) })
	if tr.Control, err = NewControl(tr.fd); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *transport) write(uid int, mode os.FileMode) (path string) {
	tr.t.Helper()
	path = filepath.Join(tr.dir, "7")
	err := os.WriteFile(path, []byte(controlText), 0o600)
	if err == nil {
		err = os.Chown(path, uid, uid)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		tr.t.Fatal(err)
	}
	return path
}

// is fails the test unless the file has this owner and mode.
func (tr *transport) is(uid, mode uint32) {
	tr.t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(tr.dir, "7"), &st); err != nil {
		tr.t.Fatal(err)
	}
	if st.Uid != uid || st.Gid != uid || st.Mode&0o7777 != mode {
		tr.t.Errorf("owner %d, group %d, mode %#o; want %d and %#o", st.Uid, st.Gid, st.Mode&0o7777, uid, mode)
	}
}

func TestControlFileOfAnotherUserIsTakenOver(t *testing.T) {
	for _, mode := range []os.FileMode{0o460, 0o600, 0o666, 0} {
		for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR} {
			tr := newTransport(t)
			tr.write(nobody, mode)
			fd, st, err := tr.Open(tr.fd, "7", flags)
			if err != nil {
				t.Fatalf("mode %#o: %v", mode, err)
			}
			var b [16]byte
			if n, err := unix.Read(fd, b[:]); string(b[:max(n, 0)]) != controlText {
				t.Errorf("read %q, %v", b[:max(n, 0)], err)
			}
			unix.Close(fd)
			tr.is(0, controlMode)
			if st.Uid != 0 || st.Size != int64(len(controlText)) {
				t.Errorf("owner %d, %d bytes", st.Uid, st.Size)
			}
		}
	}
}

// A second name may be that of somebody else's file, which nothing here may change.
func TestFileWithASecondNameStaysAsItIs(t *testing.T) {
	tr := newTransport(t)
	path := tr.write(nobody, 0o600)
	if err := os.Link(path, filepath.Join(t.TempDir(), "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if fd, _, err := tr.Open(tr.fd, "7", unix.O_RDWR); !errors.Is(err, ErrLinked) {
		t.Errorf("Open returned %d, %v", fd, err)
	}
	tr.is(nobody, 0o600)

	// Of a file of root's, the group and the mode stay.
	if err := errors.Join(os.Chown(path, 0, 0), os.Chown(tr.dir, 0, nobody)); err != nil {
		t.Fatal(err)
	}
	var err error
	if tr.Control, err = NewControl(tr.fd); err != nil {
		t.Fatal(err)
	}
	fd, st, err := tr.Open(tr.fd, "7", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	tr.ShareMessage(tr.fd, "7", &st)
	tr.is(0, 0o600)
}

func TestOwnControlFileStaysAsItIs(t *testing.T) {
	tr := newTransport(t)
	tr.write(0, 0o460)
	fd, _, err := tr.Open(tr.fd, "7", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	tr.is(0, 0o460)
}

func TestControlFileIsSharedWithTheGroupOnly(t *testing.T) {
	tr := newTransport(t)
	path := filepath.Join(tr.dir, "7")
	defer unix.Umask(unix.Umask(0o077))
	for _, group := range []int{0, nobody, nobody} { // the last replaces a file
		if err := WriteControl(path, []byte(controlText), group); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Uid != 0 || int(st.Gid) != group || st.Mode&0o7777 != controlMode {
			t.Errorf("owner %d, group %d, mode %#o, %v; want group %d", st.Uid, st.Gid, st.Mode&0o7777, err, group)
		}
	}
}

// Files that were written before transport/ got its group are root:root.
func TestFilesGetTheGroupThatTransportGotLater(t *testing.T) {
	tr := newTransport(t)
	if err := os.Chown(tr.dir, 0, nobody); err != nil {
		t.Fatal(err)
	}
	var err error
	if tr.Control, err = NewControl(tr.fd); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	has := func(mode uint32) {
		t.Helper()
		if err := unix.Lstat(filepath.Join(tr.dir, "7"), &st); err != nil {
			t.Fatal(err)
		}
		if st.Uid != 0 || st.Gid != nobody || st.Mode&0o7777 != mode {
			t.Errorf("owner %d, group %d, mode %#o", st.Uid, st.Gid, st.Mode&0o7777)
		}
	}
	path := tr.write(0, 0o600)
	fd, st, err := tr.Open(tr.fd, "7", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	has(0o660)

	for _, mode := range []os.FileMode{0o640, 0o400} {
		tr.write(0, mode)
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		tr.ShareMessage(tr.fd, "7", &st)
		has(uint32(mode) | 0o440)
	}
}

func TestControlFileThatAWriterHasOpenIsNotRead(t *testing.T) {
	tr := newTransport(t)
	path := tr.write(nobody, 0o600)
	for what, hold := range map[string]func() (release func()){
		"descriptor": func() func() {
			fd, err := unix.Open(path, unix.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			return func() { unix.Close(fd) }
		},
		"mapping": func() func() {
			fd, err := unix.Open(path, unix.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			m, err := unix.Mmap(fd, 0, len(controlText), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(fd)
			return func() { _ = unix.Munmap(m) }
		},
	} {
		tr.write(nobody, 0o600)
		release := hold()
		for range 2 { // also when it is root's already
			if _, _, err := tr.Open(tr.fd, "7", unix.O_RDONLY); err != ErrInUse {
				t.Errorf("%s: error %v", what, err)
			}
			tr.is(0, unprovenMode)
		}
		release()
		fd, _, err := tr.Open(tr.fd, "7", unix.O_RDONLY)
		if err != nil {
			t.Fatalf("%s released: %v", what, err)
		}
		unix.Close(fd)
		tr.is(0, controlMode)
	}
}

func TestWithoutLeasesAFileOfAnotherUserIsLeftAsItIs(t *testing.T) {
	tr := newTransport(t)
	if err := tr.CannotTakeOver(); err != nil {
		t.Fatal(err)
	}
	tr.noLease = unix.EINVAL // as on NFS
	tr.write(nobody, 0o600)
	if _, _, err := tr.Open(tr.fd, "7", unix.O_RDONLY); !errors.Is(err, ErrNoLease) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("error %v", err)
	}
	tr.is(nobody, 0o600)
	tr.write(0, 0o660) // our own router's
	fd, _, err := tr.Open(tr.fd, "7", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
}

func TestFileSystemWithoutLeasesIsRecognised(t *testing.T) {
	tr := newTransport(t)
	if err := tryLease(tr.fd); err != nil {
		t.Errorf("no lease in a directory of ours: %v", err)
	}
	if names, err := os.ReadDir(tr.dir); err != nil || len(names) != 0 {
		t.Errorf("left %v, error %v", names, err)
	}
	// A file that somebody has open for writing gets no lease either, with the
	// error that an NFS server gives.
	held, err := unix.Openat(tr.fd, leaseName, unix.O_WRONLY|unix.O_CREAT, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(held)
	if err := tryLease(tr.fd); err != unix.EAGAIN {
		t.Errorf("error %v", err)
	}
}

func TestReaderDoesNotKeepAControlFileFromBeingTakenOver(t *testing.T) {
	tr := newTransport(t)
	reader, err := os.Open(tr.write(nobody, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	fd, _, err := tr.Open(tr.fd, "7", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	tr.is(0, controlMode)
}

// acl is an access control list that gives a user the right to write, as the
// system stores it.
func acl(user uint32) []byte {
	list := []byte{2, 0, 0, 0}
	for _, e := range []struct{ tag, perm, id uint32 }{
		{0x01, 6, 0xffffffff}, {0x02, 6, user}, {0x04, 4, 0xffffffff}, {0x10, 6, 0xffffffff}, {0x20, 0, 0xffffffff},
	} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e.tag))
		list = binary.LittleEndian.AppendUint16(list, uint16(e.perm))
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

func TestAccessListOfTheFormerOwnerIsRemoved(t *testing.T) {
	const list = "system.posix_acl_access"
	tr := newTransport(t)
	path := tr.write(nobody, 0o600)
	if err := unix.Setxattr(path, list, acl(nobody), 0); err != nil {
		t.Skipf("cannot set an access control list: %v", err)
	}
	fd, _, err := tr.Open(tr.fd, "7", unix.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if n, err := unix.Fgetxattr(fd, list, nil); err != unix.ENODATA {
		t.Errorf("the file has a list of %d bytes, error %v", n, err)
	}
	tr.is(0, controlMode)
}

func TestOnlyRegularFilesAreControlFiles(t *testing.T) {
	tr := newTransport(t)
	path := filepath.Join(tr.dir, "7")
	for _, err := range []error{
		unix.Mkfifo(path, 0o666), os.Chown(path, nobody, nobody),
		os.Symlink("7", filepath.Join(tr.dir, "8")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := tr.Open(tr.fd, "7", unix.O_RDONLY); err != ErrNotRegular {
		t.Errorf("fifo: %v", err)
	}
	tr.is(nobody, 0o644)
	if _, _, err := tr.Open(tr.fd, "8", unix.O_RDONLY); !errors.Is(err, unix.ELOOP) {
		t.Errorf("symbolic link: %v", err)
	}
}
