package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"zsched/ta"
)

// BenchmarkDelivery is one message of 4 KiB on disk, done by the agent itself
// and by a helper, which becomes another user if root runs the benchmark.
func BenchmarkDelivery(b *testing.B) {
	file, err := os.Create(b.TempDir() + "/message")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(strings.Repeat("0123456789abcde\n", 256)); err != nil {
		b.Fatal(err)
	}
	l := &message{Separator: []byte("From x\n"), Header: []byte("A: b\n"), Length: 4096, file: file}
	h := helper{path: "/proc/self/exe", args: []string{"mailbox", HelperArg}, env: []string{"GOMAXPROCS=1"}}
	for _, name := range []string{"mbox", "maildir/"} {
		for _, by := range []string{"itself", "helper"} {
			var as *syscall.Credential
			dir := b.TempDir()
			o := &request{Path: fmt.Appendf(nil, "%s/%s", dir, name), Message: l, Host: "here"}
			if o.UID = os.Getuid(); o.UID == 0 && by == "helper" {
				o.UID, as = otherUID, &syscall.Credential{Gid: otherGID, Groups: []uint32{otherGID, extraGID}}
				if err := errors.Join(os.Chown(dir, otherUID, otherGID), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
					b.Fatal(err)
				}
			}
			b.Run(strings.Trim(name, "/")+"/"+by, func(b *testing.B) {
				for b.Loop() {
					out := outcome{}
					if by == "itself" {
						out = o.do()
					} else {
						out = h.run(o, as, defaultMailboxLimit)
					}
					if out.Status != ta.OK {
						b.Fatalf("%+v", out)
					}
				}
			})
		}
	}
}
