package ta

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// log adds a report to the file that the v line names, for the submitter who
// asked to watch. That file is nobody's business but his: it must belong to
// him, or he could have an agent that is root write into another's; it is not
// made if it is gone, symbolic links in that public directory are not
// followed, and nothing that goes wrong is told.
func (m *Message) log(r *Recipient, report Report) {
	name := m.File.Verbose
	if name == "" {
		return
	}
	if name[0] != '/' {
		name = m.at.path(name)
	}
	fd, err := openFile(name, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int64(st.Uid) != m.owner {
		return
	}
	remote := report.Notary.Remote()
	if remote != "" {
		remote = "WTT='" + remote + "' "
	}
	line := fmt.Sprintf("DIAG: C='%s' H='%s' U='%s' P='%s' ID=%d/%d L=%d -- stat='%s' notary='%s' %s MSG='%s'",
		r.Channel, r.Host, r.User, r.Privilege, m.ID, r.Offset, r.Offset+1,
		report.Status, report.Notary, remote, report.Text)
	_, _ = f.WriteString(strings.ReplaceAll(line, "\n", "\r") + "\n")
}
