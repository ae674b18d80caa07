package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"zsched/internal/testing/metricstest"
	"zsched/router"
)

// The metrics count what the router does, and the manual and the alerts name metrics that exist.
func TestMetrics(t *testing.T) {
	office := newOffice(t)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(office, ".scheduler.notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	at := filepath.Join(office, "metrics")
	write(t, filepath.Join(office, "router/1"), "no envelope\n")
	write(t, filepath.Join(office, "router/2"), "from <s@a.example>\nto <x@b.example>\nto <y@b.example>\nenv-end\n\nbody\n")
	startRouter(t, office, "POSTOFFICE="+office+"\nMAILSHARE="+office+"/share\n", nil, "--metrics", at)
	receive(t, socket)
	if _, body := metricstest.Get(t, at, "/healthz"); body != "ok\n" {
		t.Error(body)
	}
	_, body := metricstest.Get(t, at, "/metrics")
	metricstest.HasLines(t, body,
		"router_waiting 2", "router_routed_total 1", "router_recipients_total 2", "router_failures_total 1", "router_refused_total 0",
		"router_last_reload_successful 1")
	metricstest.HasNames(t, body, "router", "../../man/router.8", "../../packaging/prometheus/zsched.rules.yml")
}

func TestHealthTurnsRedWhenTheRouterHangs(t *testing.T) {
	now := time.Now()
	if why := unhealthy(router.Counts{SweptAt: now.Add(-time.Minute)}, now); why != "" {
		t.Error(why)
	}
	if why := unhealthy(router.Counts{SweptAt: now.Add(-6 * time.Minute)}, now); why != "router/ has not been read for 6m0s" {
		t.Error(why)
	}
}
