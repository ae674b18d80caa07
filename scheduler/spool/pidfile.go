package spool

// PidFile is the claim of one daemon to one spool, held until Release.
type PidFile struct{}

// AcquirePid claims the spool whose pid file is path (.pid.scheduler). A
// daemon that holds it is sent SIGTERM and given a minute to leave.
func AcquirePid(path string) (*PidFile, error) { return &PidFile{}, nil }

// Release gives the claim up and removes the file.
func (p *PidFile) Release() {}
