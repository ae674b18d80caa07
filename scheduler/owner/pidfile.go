package owner

// The pid file: for people, for mailq -s and for ZMailer's tools. It claims nothing; the
// owner of the postoffice does (owner.go).

import (
	"bytes"
	"os"
	"strconv"

	"zsched/internal/postoffice"
	"zsched/internal/process"
)

// pidName is the name of the pid file below $POSTOFFICE.
const pidName = ".pid.scheduler"

// zmailerRuns returns the pid in the pid file if that is a scheduler of ZMailer's that
// runs, otherwise 0: that one locks nothing. The pid is believed if the process is named
// "scheduler" and is not younger than the file.
func zmailerRuns(path string) int {
	pid := readPid(path)
	info, err := os.Stat(path)
	if err != nil || pid <= 1 || pid == os.Getpid() || !process.RunningSince(pid, info.ModTime()) {
		return 0
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil || string(bytes.TrimSpace(name)) != "scheduler" {
		return 0
	}
	return pid
}

// readPid returns the pid in the file, 0 if there is none.
func readPid(path string) int {
	text, err := postoffice.ReadFile(postoffice.WorkingDir, path, 32)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0
	}
	return pid
}

// removePid removes the file, unless another scheduler has written its own pid into it.
func removePid(path string) {
	if pid := readPid(path); pid == os.Getpid() || pid == 0 {
		_ = postoffice.RemovePath(path)
	}
}
