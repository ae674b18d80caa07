package main

// Files and directories: where the postoffice, the logs and the programs are.

import (
	"path/filepath"

	"zsched/internal/zenv"
	"zsched/scheduler/config"
)

// places are the paths of files and directories. They are absolute, because the
// scheduler changes its directory to POSTOFFICE/transport, but relative names on the
// command line are relative to the directory where it was started.
type places struct {
	postoffice, mailbin, config, log, statistics, rendezvous string
}

func (p *places) transport() string { return filepath.Join(p.postoffice, "transport") }

func findPlaces(o *options, env *zenv.File) (*places, error) {
	p := &places{postoffice: o.postoffice, config: o.config, log: o.log, statistics: o.statistics, rendezvous: o.rendezvous}
	p.mailbin = env.Value("MAILBIN")
	if p.postoffice == "" {
		p.postoffice = env.Value("POSTOFFICE")
	}
	if p.config == "" {
		p.config = config.DefaultFile(env)
	}
	if p.log == "" && o.daemon {
		p.log = filepath.Join(env.Value("LOGDIR"), "scheduler")
	}
	if p.rendezvous == "" {
		p.rendezvous = env.Value("RENDEZVOUS")
	}
	for _, name := range []*string{&p.postoffice, &p.mailbin, &p.config, &p.log, &p.statistics, &p.rendezvous} {
		if *name == "" {
			continue
		}
		var err error
		if *name, err = filepath.Abs(*name); err != nil {
			return nil, err
		}
	}
	return p, nil
}
