package scheduler

// Check exposes the invariants to the scenarios.
func (s *Scheduler) Check() { s.check() }
