package daemon

import (
	"context"
	"os"
	"strconv"
	"strings"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// Counters are the numbers of SHOW COUNTERS that the scheduler knows.
func (q queries) Counters(ctx context.Context) (map[string]float64, error) {
	var c scheduler.Counts
	var volume int64
	var now, started int64
	err := q.d.ask(ctx, func() {
		c, volume = q.d.core.Counts(), q.d.tally.volume
		now, started = q.d.now.Unix(), q.d.startedAt.Unix()
	})
	if err != nil {
		return nil, err
	}
	all := map[string]float64{
		"Time_now":                     float64(now),
		"Block_creation_time":          float64(started),
		"SYS.SchedulerMasterPID":       float64(os.Getpid()),
		"SYS.SchedulerMasterStartTime": float64(started),
		"SYS.SchedulerMasterStarts":    1,
		"SC.ReceivedMessages":          float64(c.MessagesIn),
		"SC.ReceivedRecipients":        float64(c.RecipientsIn),
		"SC.TransmittedMessages":       float64(c.MessagesOut),
		"SC.TransmittedRecipients":     float64(c.RecipientsOut),
		"SC.StoredMessages-G":          float64(c.Messages),
		"SC.StoredThreads-G":           float64(c.Threads),
		"SC.StoredVertices-G":          float64(c.Vertices),
		"SC.StoredRecipients-G":        float64(c.Recipients),
		"SC.ReceivedVolume-kB":         float64(volume / 1024),
		"SC.TransportAgentForks":       float64(c.AgentsStarted),
		"SC.TransportAgentProcesses-G": float64(c.Agents),
		"SC.TransportAgentsActive-G":   float64(c.Agents - c.AgentsIdle),
		"SC.TransportAgentsIdle-G":     float64(c.AgentsIdle),
	}
	q.d.addLoad(all)
	q.d.addSpace(all)
	return all, nil
}

// addLoad adds load averages, where the system has them.
func (d *Daemon) addLoad(all map[string]float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return
	}
	words := strings.Fields(string(text))
	for i, name := range []string{"SYS.Load-Avg-1-min-G", "SYS.Load-Avg-5-min-G"} {
		if i < len(words) {
			if x, err := strconv.ParseFloat(words[i], 64); err == nil {
				all[name] = x
			}
		}
	}
}

// addSpace adds what is free in the file systems of the queue and the log.
func (d *Daemon) addSpace(all map[string]float64) {
	for prefix, dir := range map[string]string{"SYS.Spool": d.MessageDir, "SYS.TportSpool": d.Dir, "SYS.Log": d.LogDir} {
		if dir == "" {
			continue
		}
		space, err := spool.ReadSpace(dir)
		if err != nil {
			continue
		}
		all[prefix+"FreeSpace-kB-G"] = float64(space.FreeKB)
		all[prefix+"UsedSpace-kB-G"] = float64(space.UsedKB)
		all[prefix+"FreeFiles-G"] = float64(space.FreeFiles)
		all[prefix+"UsedFiles-G"] = float64(space.UsedFiles)
	}
}
