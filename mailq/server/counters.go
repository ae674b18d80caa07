package server

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"
)

// counts are the counters of the server itself. The keys are their names without
// the prefix SC.MQ2.
type counts struct {
	mu     sync.Mutex
	byName map[string]uint64
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName = make(map[string]uint64)
	}
	c.byName[name]++
}

// Counters returns the counters of the server's sessions by their names in SHOW
// COUNTERS.
func (s *Server) Counters() map[string]float64 {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	all := map[string]float64{"SC.MQ2Parallel-G": float64(s.sessions.count())}
	for name, n := range s.counts.byName {
		all["SC.MQ2"+name] = float64(n)
	}
	return all
}

// allCounters returns the counters of the queue and the server, and the time.
func (s *Server) allCounters(ctx context.Context, now time.Time) (map[string]float64, error) {
	queue, err := s.queue.Counters(ctx)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(queue)
	if all == nil {
		all = make(map[string]float64)
	}
	maps.Copy(all, s.Counters())
	all["Time_now"] = float64(now.Unix())
	return all, nil
}

// counterLayout returns the names of SHOW COUNTERS in their order, one slice for
// each block.
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

// counterLine writes a counter in 42 columns, the name at the left and the value
// at the right, in ZMailer's widths.
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

// showCounters executes SHOW COUNTERS.
func showCounters(ctx context.Context, r *report, _ string) error {
	out, settings := r.out, r.server.settings.Load()
	all, err := r.server.allCounters(ctx, r.now)
	if err != nil {
		return err
	}
	// ZMailer printed the magic number of its shared memory. There is none here.
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
			if pid := int(all[name]); strings.HasSuffix(name, "PID") && pid > 0 && !settings.Alive(pid) {
				line += " NOT PRESENT!"
			}
			if err := out.text(line); err != nil {
				return err
			}
		}
	}
	return nil
}
