package admin

// SHOW COUNTERS: the numbers that the scheduler and the system know.

import (
	"context"
	"math"
	"os"
	"strconv"
	"strings"

	"zsched/internal/postoffice"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

// Counters returns the numbers of SHOW COUNTERS by name.
func (q *Queue) Counters(ctx context.Context) (map[string]float64, error) {
	var c view.Counts
	var now, started int64
	err := q.read.port.Ask(ctx, func(l *daemon.Loop) {
		c = l.Core().Counts()
		now, started = l.Now().Unix(), l.Status().StartedAt.Unix()
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
		"SC.ReceivedVolume-kB":         float64(c.BytesIn / 1024),
		"SC.TransportAgentForks":       float64(c.AgentsStarted),
		"SC.TransportAgentProcesses-G": float64(c.Agents),
		"SC.TransportAgentsActive-G":   float64(c.Agents - c.AgentsIdle),
		"SC.TransportAgentsIdle-G":     float64(c.AgentsIdle),
	}
	addLoad(all)
	q.addSpace(all)
	return all, nil
}

// addLoad adds the load averages, if the system has them.
func addLoad(all map[string]float64) {
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

// addSpace adds the free space of the file systems of the queue and the log.
func (q *Queue) addSpace(all map[string]float64) {
	for prefix, dir := range map[string]string{"SYS.Spool": q.options.MessageDir, "SYS.TportSpool": q.options.ControlDir, "SYS.Log": q.options.LogDir} {
		if dir == "" {
			continue
		}
		st, err := postoffice.Statfs(dir)
		if err != nil {
			continue
		}
		kB := float64(st.Frsize) / 1024
		all[prefix+"FreeSpace-kB-G"] = math.Floor(float64(st.Bavail) * kB)
		all[prefix+"UsedSpace-kB-G"] = math.Floor(float64(st.Blocks-min(st.Bfree, st.Blocks)) * kB)
		all[prefix+"FreeFiles-G"] = float64(st.Ffree)
		all[prefix+"UsedFiles-G"] = float64(st.Files - min(st.Ffree, st.Files))
	}
}
