package process

// Daemons that leave a pid file: whether they run.

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The staging directories of daemons in a postoffice, which they lock besides their pid
// files.
const (
	RouterDir = "transport/.router"
	XferdDir  = "transport/.xfer"
)

// Daemon reports whether the daemon of a postoffice that is named name is running, and
// whether one ever ran: the process whose pid is in its pid file runs, and its name begins
// with that name.
func Daemon(office, name string) (running, ever bool) {
	text, err := os.ReadFile(filepath.Join(office, ".pid."+name))
	if err != nil {
		return false, !os.IsNotExist(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || !Exists(pid) {
		return false, true
	}
	command, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.HasPrefix(string(command), name), true
}
