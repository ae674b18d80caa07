package config

import (
	"testing"

	"zsched/internal/zenv"
)

func TestNotifySocketOfZmailerConf(t *testing.T) {
	system := debian(0)
	for value, want := range map[string]Socket{"/n": {"unix", "/n"}, "UNIX:/n": {"unix", "/n"}} {
		system.Zenv = zenv.Parse([]byte("SCHEDULERNOTIFY=" + value))
		file, err := Parse("f", []byte("x command=y"), system)
		if err != nil || file.Params.NotifySock != want {
			t.Errorf("SCHEDULERNOTIFY=%s is %v, %v", value, file.Params.NotifySock, err)
		}
		file, err = Parse("f", []byte("x command=y\nPARAMnotifysock=/m"), system)
		if err != nil || file.Params.NotifySock != (Socket{"unix", "/m"}) {
			t.Errorf("PARAMnotifysock does not override SCHEDULERNOTIFY: %v, %v", file.Params.NotifySock, err)
		}
	}
	if s := mustParse(t, "x command=y").Params.NotifySock; s != (Socket{}) {
		t.Errorf("without either the socket is %v", s)
	}
}

// A value that is no path would have made a socket in the working directory,
// which is transport/.
func TestNotifySocketOfZmailerConfIsAPath(t *testing.T) {
	system := debian(0)
	for value, warned := range map[string]bool{"UDP:127.0.0.1:174": true, "notify": true, "UNIX:": true, "": false} {
		system.Zenv = zenv.Parse([]byte("SCHEDULERNOTIFY=" + value))
		file, err := Parse("f", []byte("*/* interval=1m retries=1 expiry=1d overfeed=0 group=0\nx command=y"), system)
		if err != nil || file.Params.NotifySock != (Socket{}) || (len(file.Warnings) > 0) != warned {
			t.Errorf("SCHEDULERNOTIFY=%s is %v, %v, %v", value, file.Params.NotifySock, file.Warnings, err)
		}
	}
}
