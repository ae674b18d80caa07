package server

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"zsched/mailq"
)

// counts are what the server itself counts, by what follows SC.MQ2 in a
// counter's name.
type counts struct {
	mu sync.Mutex
	by map[string]uint64
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[string]uint64)
	}
	c.by[name]++
}

// Counters are what the server counts of its sessions, by the names they have
// in SHOW COUNTERS.
func (s *Server) Counters() map[string]float64 {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	all := map[string]float64{"SC.MQ2Parallel-G": float64(s.sessions.Load())}
	for name, n := range s.counts.by {
		all["SC.MQ2"+name] = float64(n)
	}
	return all
}

// everyCounter is what there is to show: the queue's, the server's and the
// time.
func (s *Server) everyCounter(ctx context.Context, now time.Time) (map[string]float64, error) {
	theirs, err := s.queue.Counters(ctx)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(theirs)
	if all == nil {
		all = make(map[string]float64)
	}
	maps.Copy(all, s.Counters())
	all["Time_now"] = float64(now.Unix())
	return all, nil
}

// counterLayout is the names of SHOW COUNTERS in their order, a slice a block.
func counterLayout() (blocks [][]string) {
	for _, b := range counterBlocks {
		blocks = append(blocks, strings.Fields(b))
	}
	for _, group := range agentGroups {
		var block []string
		for _, name := range agentCounters {
			block = append(block, group+"."+name)
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// counterLine is a counter in 42 columns: the name at the left, the value at
// the right, in the room that it had in the old program.
func counterLine(name string, value float64) string {
	switch name {
	case "SYS.Load-Avg-1-min-G", "SYS.Load-Avg-5-min-G":
		return fmt.Sprintf("%-36s%6.2f", name, value)
	case "SS.Processes-G", "SS.ParallelSMTPconnects-G", "SS.ParallelSMTPSconnects-G", "SS.ParallelSUBMITconnects-G":
		return fmt.Sprintf("%-38s%4d", name, int64(value))
	}
	if strings.HasSuffix(name, "-G") {
		return fmt.Sprintf("%-33s%9d", name, int64(value))
	}
	return fmt.Sprintf("%-32s%10d", name, uint64(max(0, value)))
}

func showCounters(r *request, ctx context.Context) bool {
	return !r.bare() || r.list(func(out *lines) error {
		all, err := r.server.everyCounter(ctx, time.Now())
		if err != nil {
			return err
		}
		if r.asJSON {
			return counterItems(out, all)
		}
		return r.counterText(ctx, out, all)
	})
}

func counterItems(out *lines, all map[string]float64) error {
	for _, block := range counterLayout() {
		for _, name := range block {
			if err := out.object(mailq.CounterItem{Name: name, Value: all[name]}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *request) counterText(ctx context.Context, out *lines, all map[string]float64) error {
	// The magic number is that of a shared segment, which there is none of.
	if err := out.text(fmt.Sprintf("ZMailer SHM segment dump; Magic=0x%08X", 0)); err != nil {
		return err
	}
	for i, block := range counterLayout() {
		if i > 0 {
			if err := out.text(""); err != nil {
				return err
			}
		}
		for _, name := range block {
			line := counterLine(name, all[name])
			if pid := int(all[name]); strings.HasSuffix(name, "PID") && pid > 0 && !r.settings.Alive(pid) {
				line += " NOT PRESENT!"
			}
			if err := out.text(line); err != nil {
				return err
			}
		}
		if i == 0 && r.settings.Extra != nil {
			if err := extraLines(out, r.settings.Extra(ctx)); err != nil {
				return err
			}
		}
	}
	return nil
}

// extraLines passes on what a program of the administrator printed.
func extraLines(out *lines, text []byte) error {
	text = bytes.TrimSuffix(text, []byte{'\n'})
	if len(text) == 0 {
		return nil
	}
	for line := range bytes.SplitSeq(text, []byte{'\n'}) {
		if err := out.text(mailq.OneLine(string(line))); err != nil {
			return err
		}
	}
	return nil
}
