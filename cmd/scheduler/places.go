package main

// Files and directories: where the postoffice, the logs and the programs are.

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/zenv"
	"zsched/scheduler/config"
	"zsched/scheduler/spool"
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

// operands returns the control files named on the command line, which are
// absolute or below POSTOFFICE/transport.
func operands(files []string, where *places, log zerolog.Logger) []spool.Name {
	var names []spool.Name
	for _, file := range files {
		path := strings.TrimPrefix(file, where.transport()+"/")
		id, ok := ctlfile.Number(filepath.Base(path))
		if !ok || !filepath.IsLocal(path) {
			log.Error().Str("file", file).Msg("not a control file's name")
			continue
		}
		if _, err := os.Lstat(filepath.Join(where.transport(), path)); err != nil {
			log.Error().Err(err).Str("file", file).Msg("no such control file")
			continue
		}
		names = append(names, spool.Name{Path: filepath.Clean(path), ID: id})
	}
	return names
}
