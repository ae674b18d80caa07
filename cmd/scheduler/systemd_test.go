package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// The service manager takes a reload for begun only with the time of it, and
// for ended at READY=1.
func TestReloadIsToldToTheServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	notifyReloading()
	notifyReady()
	for _, want := range []string{"RELOADING=1\nMONOTONIC_USEC=", "READY=1"} {
		buf := make([]byte, 200)
		n, err := socket.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), want) {
			t.Errorf("%q, %v; want %q", buf[:n], err, want)
		}
	}
}
