package server

// SHOW COUNTERS: its names and their order.

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

// counterNames are the names of SHOW COUNTERS in their order, a line for each; an empty line
// separates blocks. Most of them counted what other programs of ZMailer do. They are zero, so
// that scripts still find their lines.
//
//go:embed counters.txt
var counterNames string

// counterLine writes a counter in 42 columns, the name at the left and the value
// at the right, in ZMailer's widths.
func counterLine(name string, value float64) string {
	switch {
	case strings.HasPrefix(name, "SYS.Load-Avg"):
		return fmt.Sprintf("%-36s%6.2f", name, value)
	case strings.HasSuffix(name, "-G"):
		return fmt.Sprintf("%-33s%9d", name, int64(value))
	}
	return fmt.Sprintf("%-32s%10d", name, uint64(max(0, value)))
}

// showCounters executes SHOW COUNTERS.
func showCounters(ctx context.Context, r *report, _ string) error {
	all, err := r.queue.Counters(ctx)
	if err != nil {
		return err
	}
	// ZMailer printed the magic number of its shared memory. There is none here.
	line := fmt.Sprintf("ZMailer SHM segment dump; Magic=0x%08X", 0)
	for name := range strings.Lines(counterNames) {
		if err := r.out.text(line); err != nil {
			return err
		}
		if line = strings.TrimSuffix(name, "\n"); line != "" {
			line = counterLine(line, all[line])
		}
	}
	return r.out.text(line)
}
