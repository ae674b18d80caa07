package ta

import (
	"fmt"
	"strings"
	"sync"
)

// maxPrinted is how much of what a program prints is kept, in bytes.
const maxPrinted = 4000

// Printed takes what a program prints, and keeps the begin of it for a report.
type Printed struct {
	mu   sync.Mutex // the program may have left others behind
	kept []byte
	more int // bytes not kept
}

// Write takes all there is; there is no error.
func (p *Printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(b), maxPrinted-len(p.kept))
	p.kept = append(p.kept, b[:n]...)
	p.more += len(b) - n
	return len(b), nil
}

// Text is what was printed, as lines for a report: without control characters,
// which those who read reports on a terminal would suffer from.
func (p *Printed) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0 {
			return -1
		}
		return r
	}, strings.ToValidUTF8(string(p.kept), "?"))
	text = strings.Trim(text, "\n \t")
	if p.more > 0 {
		text += fmt.Sprintf("\n... and %d bytes more", p.more)
	}
	return text
}
