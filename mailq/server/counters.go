package server

import (
	"context"
	"fmt"
	"strings"
)

// counterBlocks are the names of SHOW COUNTERS in their order, one string for each
// block; an empty line separates blocks. ZMailer's list also counts what its other
// programs do, which this scheduler does not know.
var counterBlocks = [...]string{
	`Time_now Block_creation_time SYS.Load-Avg-1-min-G SYS.Load-Avg-5-min-G`,
	`SYS.SchedulerMasterPID SYS.SchedulerMasterStartTime SYS.SchedulerMasterStarts
	 SYS.SpoolFreeSpace-kB-G SYS.SpoolUsedSpace-kB-G SYS.SpoolFreeFiles-G SYS.SpoolUsedFiles-G
	 SYS.TportSpoolFreeSpace-kB-G SYS.TportSpoolUsedSpace-kB-G SYS.TportSpoolFreeFiles-G
	 SYS.TportSpoolUsedFiles-G SYS.LogFreeSpace-kB-G SYS.LogUsedSpace-kB-G SYS.LogFreeFiles-G
	 SYS.LogUsedFiles-G`,
	`SC.ReceivedMessages SC.ReceivedRecipients SC.TransmittedMessages SC.TransmittedRecipients
	 SC.StoredMessages-G SC.StoredThreads-G SC.StoredVertices-G SC.StoredRecipients-G
	 SC.ReceivedVolume-kB SC.TransportAgentForks SC.TransportAgentProcesses-G
	 SC.TransportAgentsActive-G SC.TransportAgentsIdle-G`,
}

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
	lines := []string{fmt.Sprintf("ZMailer SHM segment dump; Magic=0x%08X", 0)}
	for i, block := range counterBlocks {
		if i > 0 {
			lines = append(lines, "")
		}
		for name := range strings.FieldsSeq(block) {
			lines = append(lines, counterLine(name, all[name]))
		}
	}
	for _, line := range lines {
		if err := r.out.text(line); err != nil {
			return err
		}
	}
	return nil
}
