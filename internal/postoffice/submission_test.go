package postoffice_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
)

// Who looks for a submission and does not find it must know that a directory was not read.
func TestUnknownHashDirectoryIsAnError(t *testing.T) {
	d := memdisk.New("/office", os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
	defer postoffice.Mount("/office", d)()
	for _, dir := range []string{"/office/router", "/office/router/A"} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := postoffice.WriteFile(postoffice.WorkingDir, "/office/router/A/7", nil, false); err != nil {
		t.Fatal(err)
	}
	each := func() (names []string, err error) {
		err = postoffice.EachSubmission("/office", func(name string, _ os.FileInfo) bool {
			names = append(names, name)
			return true
		})
		return names, err
	}
	if names, err := each(); err != nil || len(names) != 1 || names[0] != "A/7" {
		t.Errorf("%q, %v", names, err)
	}
	d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EIO, At: "stat router/A"})
	if names, err := each(); !errors.Is(err, unix.EIO) || len(names) > 0 {
		t.Errorf("with a faulty disk: %q, %v", names, err)
	}
}

// Any user can make a million links in router/.
func TestWhatTheDirectoryShowsToBeNoFileIsNotExamined(t *testing.T) {
	d := memdisk.New("/office", os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
	defer postoffice.Mount("/office", d)()
	for _, dir := range []string{"/office/router", "/office/router/1"} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"2", "temporary"} {
		if err := postoffice.WriteFile(postoffice.WorkingDir, "/office/router/"+name, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EIO, At: "stat router/1"})
	var found, strays []string
	err := postoffice.EachEntry("/office", func(name string, _ os.FileInfo) bool {
		found = append(found, name)
		return true
	}, func(path string) bool {
		strays = append(strays, path)
		return true
	})
	slices.Sort(strays)
	if err != nil || !slices.Equal(found, []string{"2"}) || !slices.Equal(strays, []string{"/office/router/1", "/office/router/temporary"}) {
		t.Errorf("found %q, strays %q, %v", found, strays, err)
	}
}

// The second call must not take a directory for finished whose name the first one has not synced.
func TestADirectoryIsFinishedWhoseNameMayNotBeOnDisk(t *testing.T) {
	d := memdisk.New("/office", os.Geteuid(), rand.New(rand.NewPCG(1, 1)))
	defer postoffice.Mount("/office", d)()
	dir := func() error { return postoffice.MakeDir(postoffice.WorkingDir, "/office/dir", 0o2755) }
	for _, at := range []string{"sync", "open", "chmod"} {
		d.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EIO, At: at})
		if err := dir(); !errors.Is(err, unix.EIO) {
			t.Errorf("%s fails: %v", at, err)
		}
	}
	d.SetFaults(memdisk.Faults{})
	if err := dir(); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := postoffice.Stat(postoffice.WorkingDir, "/office/dir", &st); err != nil || st.Mode&0o7777 != 0o2755 {
		t.Errorf("%v, mode %o", err, st.Mode)
	}
	d.Cut()
	d.PowerOn(0)
	if err := postoffice.Stat(postoffice.WorkingDir, "/office/dir", &st); err != nil {
		t.Errorf("the directory is lost: %v", err)
	}
}
