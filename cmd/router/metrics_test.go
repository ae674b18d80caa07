package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", at)
	}}}
	get := func(path string) string {
		answer, err := client.Get("http://metrics" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if body := get("/healthz"); body != "ok\n" {
		t.Error(body)
	}
	body := get("/metrics")
	for _, line := range []string{
		"router_waiting 2", "router_routed_total 1", "router_recipients_total 2", "router_failures_total 1", "router_refused_total 0",
		"router_last_reload_successful 1",
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	for _, file := range []string{"../../man/router.8", "../../packaging/prometheus/zsched.rules.yml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\brouter_\w+`).FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !strings.Contains(body, "\n"+name+" ") && !strings.Contains(body, "\n"+name+"{") {
				t.Errorf("%s names %s, which is not a metric", file, name)
			}
		}
	}
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
