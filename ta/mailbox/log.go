package mailbox

import (
	"fmt"
	"os"

	"zsched/ta"
)

// log adds a delivery to the delivery log, one write a line: the message, the
// size of the mbox before, what was added, and where.
func (a *Agent) log(m *ta.Message, out outcome) {
	if a.Log == "" {
		return
	}
	id := m.File.LogID
	if id == "" {
		id = m.SpoolID()
	}
	f, err := os.OpenFile(a.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d %d %s\n", id, out.Before, out.Bytes, visible(out.Name))
		_ = f.Close()
	}
	if err != nil && a.Warn != nil {
		a.Warn(fmt.Sprintf("delivery log: %v", err))
	}
}
