package hold

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"zsched/ctlfile"
	"zsched/ta"
)

// alike groups recipients that one submission can have.
func alike(rs []*ta.Recipient) (groups [][]*ta.Recipient) {
	type key struct {
		from       ctlfile.Quad
		header     int64
		ret, envID string
	}
	place := map[key]int{}
	for _, r := range rs {
		k := key{r.From, r.Header, r.Ret, r.EnvID}
		i, ok := place[k]
		if !ok {
			i = len(groups)
			place[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// submit gives the router a message for some recipients: written in public/,
// on disk before it gets its name in router/. The name is the number of its
// inode, as ever. After an error nothing of it is left.
func (a *Agent) submit(m *ta.Message, rs []*ta.Recipient) (name string, err error) {
	body, err := m.Body()
	if err != nil {
		return "", fmt.Errorf("read the message: %w", err)
	}
	f, err := os.CreateTemp(filepath.Join(a.Postoffice, "public"), "hold-*")
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("submit: %w", err)
		}
	}()
	w := bufio.NewWriter(f)
	_, _ = w.WriteString(a.envelope(rs))
	_, _ = w.WriteString(rs[0].Headers() + "\n")
	if _, err = io.Copy(w, body); err != nil {
		return "", err
	}
	if err = w.Flush(); err != nil {
		return "", err
	}
	if err = f.Sync(); err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	name = strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)
	router := filepath.Join(a.Postoffice, "router")
	if err = os.Rename(f.Name(), filepath.Join(router, name)); err != nil {
		return "", err
	}
	// The router may have it by now. Should the machine stop before this is
	// on disk, the old recipient is still locked and tried again.
	if d, e := os.Open(router); e == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return name, nil
}

// envelope is the lines that tell the router what a header does not.
func (a *Agent) envelope(rs []*ta.Recipient) string {
	var b strings.Builder
	first := rs[0]
	fmt.Fprintf(&b, "rcvdfrom STDIN (hold@%s)\n", a.Host)
	if first.EnvID != "" {
		fmt.Fprintf(&b, "envid %s\n", first.EnvID)
	}
	if first.Ret != "" {
		fmt.Fprintf(&b, "notaryret %s\n", first.Ret)
	}
	if first.From.Channel == "error" {
		b.WriteString("channel error\n")
	} else {
		fmt.Fprintf(&b, "from <%s>\n", first.From.User)
	}
	for _, r := range rs {
		var words []string
		for _, key := range []string{"NOTIFY", "ORCPT"} {
			if value, ok := ctlfile.DSNWord(r.DSN, key); ok {
				words = append(words, key+"="+value)
			}
		}
		if len(words) > 0 {
			fmt.Fprintf(&b, "todsn %s\n", strings.Join(words, " "))
		}
		fmt.Fprintf(&b, "to <%s>\n", r.User)
	}
	b.WriteString("env-end\n")
	return b.String()
}
