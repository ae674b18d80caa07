package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/scheduler/config"
	"zsched/scheduler/spool"
)

// places are where things are, all absolute: the scheduler works in
// POSTOFFICE/transport, and that is not where an admin's relative names begin.
type places struct {
	postoffice, mailbin, config, log, statistics, rendezvous string
}

func (p *places) transport() string { return filepath.Join(p.postoffice, "transport") }

func findPlaces(o *options, zenv *config.Zenv) (*places, error) {
	p := &places{postoffice: o.postoffice, config: o.config, log: o.log, statistics: o.statistics, rendezvous: o.rendezvous}
	p.mailbin, _ = zenv.Get("MAILBIN")
	if p.postoffice == "" {
		p.postoffice, _ = zenv.Get("POSTOFFICE")
	}
	if p.config == "" {
		p.config = config.DefaultFile(zenv)
	}
	if p.log == "" && o.daemon {
		logs, _ := zenv.Get("LOGDIR")
		p.log = filepath.Join(logs, "scheduler")
	}
	if p.rendezvous == "" {
		p.rendezvous, _ = zenv.Get("RENDEZVOUS")
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

func readZenv(file string, stderr io.Writer) (*config.Zenv, error) {
	if file != "" {
		return config.ReadZenv(file)
	}
	zenv, err := config.ReadZenv(config.DefaultZenv)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the defaults
	}
	if err != nil {
		fmt.Fprintf(stderr, "scheduler: %v\n", err)
	}
	return zenv, nil
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
