package report

// What mailq totals prints.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/mailq"
)

// Totals returns the lines of the totals, and what needs attention.
func Totals(t *mailq.Totals, now time.Time) []string {
	return append([]string{
		fmt.Sprintf("%s, %s, %s, %s (%d idle)", units.Plural(t.Messages, "message", "messages"), units.Plural(t.Recipients, "recipient", "recipients"),
			units.Plural(t.Threads, "thread", "threads"), units.Plural(t.Agents, "agent", "agents"), t.IdleAgents),
		"job lines: " + states(t.States),
	}, t.Notes(now)...)
}

// states lists how many jobs are in each state.
func states(count map[string]int) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[state], state))
	}
	return strings.Join(parts, ", ")
}
