package main

// The cluster (PARAMcluster): how the program joins it.

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	"zsched/scheduler/cluster"
	"zsched/scheduler/config"
)

// openCluster joins the cluster of PARAMcluster. It returns nil if there is none.
func (s *setting) openCluster(file *config.File, log zerolog.Logger) (*cluster.Node, error) {
	p := &file.Params
	if p.Cluster == nil {
		return nil, nil
	}
	address := *p.Cluster
	if p.ClusterPasswordFile != "" {
		text, err := os.ReadFile(p.ClusterPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("password for the store: %w", err)
		}
		address.Password = strings.TrimSpace(string(text))
	}
	cluster.SilenceLibrary()
	nonce := make([]byte, 8)
	_, _ = rand.Read(nonce)
	return cluster.Open(cluster.Options{
		Store: address, Node: p.NodeName(s.where.postoffice), Place: s.place(),
		Nonce: hex.EncodeToString(nonce),
		Rand:  mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64())),
		Log: func(severity scheduler.Severity, text string) {
			level := [...]zerolog.Level{zerolog.InfoLevel, zerolog.WarnLevel, zerolog.ErrorLevel}[severity]
			log.WithLevel(level).Str("store", address.String()).Msg(text)
		},
	}), nil
}

// place identifies the postoffice on this machine. Only one scheduler runs there,
// so another process from the same place is its successor.
func (s *setting) place() string {
	host, _ := os.Hostname()
	machine, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	place := host + "/" + strings.TrimSpace(string(machine))
	var stat syscall.Stat_t
	if syscall.Stat(s.where.postoffice, &stat) == nil {
		place += fmt.Sprintf("/%d/%d", stat.Dev, stat.Ino)
	}
	return strings.ReplaceAll(place, " ", "_")
}
