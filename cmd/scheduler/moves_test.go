package main

import (
	"slices"
	"testing"

	"zsched/internal/zenv"
	child "zsched/scheduler/agent"
	"zsched/scheduler/config"
)

// TestAgentsLearnWhetherErrorsAreStored: errormail does what the scheduler does, and a
// reload counts for the agents that are started after it.
func TestAgentsLearnWhetherErrorsAreStored(t *testing.T) {
	m := newMoves(new(zenv.File), "mx1", new(config.Params))
	for _, want := range []string{"", "yes", ""} {
		m.reload(&config.Params{StoreErrorOnError: want != ""})
		_, _, env, err := child.Command([]string{"errormail"}, "/bin", m.agentEnv())
		if got := slices.Contains(env, "STOREERRORS=yes"); err != nil || got != (want != "") {
			t.Errorf("%q: the environment is %q, %v", want, env, err)
		}
	}
}
