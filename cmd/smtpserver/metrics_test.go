package main

import (
	"net/http"
	"net/smtp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
	"zsched/internal/testing/metricstest"
)

// get asks a server of metrics for a path.
func (p place) get(path string) (status int, body string) {
	p.t.Helper()
	return metricstest.Get(p.t, filepath.Join(p.dir, "metrics"), path)
}

// startWithMetrics starts a server with these options, and returns when it answers for metrics.
func startWithMetrics(t *testing.T, config string) (p place, address string) {
	t.Helper()
	p = newPlace(t, "")
	certificatetest.Write(t, filepath.Join(p.dir, "mx.pem"), time.Now().Add(time.Hour))
	config += "\nmetrics " + filepath.Join(p.dir, "metrics") + "\n"
	if err := os.WriteFile(filepath.Join(p.dir, "smtpserver.cf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p.logged = make(chan string, 1000)
	_, address = p.start()
	for line := range p.logged {
		if strings.Contains(line, `"listening"`) { // the second line of this kind
			break
		}
	}
	return p, address
}

// The metrics count what clients do, and the manual and the alerts name metrics that exist.
func TestMetrics(t *testing.T) {
	p, address := startWithMetrics(t, "domain ours.example\ncertificate mx.pem")
	client, err := smtp.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := send(client); err != nil {
		t.Fatal(err)
	}
	if err := client.Mail("<>"); err == nil {
		t.Error("<<>> is accepted")
	}
	if status, body := p.get("/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("%d %s", status, body)
	}
	_, body := p.get("/metrics")
	metricstest.HasLines(t, body,
		"smtpserver_accepting 1", "smtpserver_sessions 1", "smtpserver_sessions_total 1", "smtpserver_messages_total 1",
		"smtpserver_recipients_total 1", `smtpserver_refused_total{reason="address"} 1`, "smtpserver_tls_sessions_total 0")
	if found := regexp.MustCompile(`\nsmtpserver_certificate_end_seconds 1\.\d+e\+09\n`).FindString(body); found == "" {
		t.Error("no end of the certificate")
	}
	metricstest.HasNames(t, body, "smtpserver", "../../man/smtpserver.8", "../../packaging/prometheus/zsched.rules.yml")
}

// While no mail can be accepted, the health check says why.
func TestHealthTurnsRedWhenTheDiskIsFull(t *testing.T) {
	p, _ := startWithMetrics(t, "min-free 1000000G")
	if status, body := p.get("/healthz"); status != http.StatusServiceUnavailable || body != "Not enough disk space\n" {
		t.Errorf("%d %s", status, body)
	}
	if _, body := p.get("/metrics"); !strings.Contains(body, "\nsmtpserver_accepting 0\n") {
		t.Error("the metrics say that mail is accepted")
	}
}
