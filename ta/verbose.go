package ta

import (
	"fmt"
	"strings"

	"zsched/ctlfile"
)

// log adds a report to the file that the v line names.
func (m *Message) log(r *Recipient, report Report) {
	name := m.File.Verbose
	if name == "" || m.owner < 0 {
		return
	}
	if name[0] != '/' {
		name = m.at.path(name)
	}
	remote := report.Notary.Remote()
	if remote != "" {
		remote = "WTT='" + remote + "' "
	}
	line := fmt.Sprintf("DIAG: C='%s' H='%s' U='%s' P='%s' ID=%d/%d L=%d -- stat='%s' notary='%s' %s MSG='%s'",
		r.Channel, r.Host, r.User, r.Privilege, m.ID, r.Offset, r.Offset+1,
		report.Status, report.Notary, remote, report.Text)
	ctlfile.AppendVerbose(name, uint32(m.owner), strings.ReplaceAll(line, "\n", "\r")+"\n")
}
