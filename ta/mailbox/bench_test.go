package mailbox

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"zsched/ta"
)

// BenchmarkDelivery is one message of 4 KiB on disk, done by the agent itself
// and by a helper.
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
	h := helper{path: "/proc/self/exe", args: []string{"mailbox", HelperArg}}
	for _, name := range []string{"mbox", "maildir/"} {
		for _, by := range []string{"itself", "helper"} {
			o := &request{Path: fmt.Appendf(nil, "%s/%s", b.TempDir(), name), Message: l, Host: "here"}
			b.Run(strings.Trim(name, "/")+"/"+by, func(b *testing.B) {
				for b.Loop() {
					out := outcome{}
					if by == "itself" {
						out = o.do()
					} else {
						out = h.run(o, nil, defaultMailboxLimit)
					}
					if out.Status != ta.OK {
						b.Fatalf("%+v", out)
					}
				}
			})
		}
	}
}
