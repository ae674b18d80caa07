package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"zsched/internal/version"
	"zsched/ta/smtp/smtptest"
)

// The test binary is smtp if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("SMTP_HELPER_PROCESS") != "" {
		main()
	}
	os.Exit(m.Run())
}

// spool makes a postoffice with messages of one recipient, one for each host.
func spool(tb testing.TB, hosts ...string) (transport string) {
	tb.Helper()
	dir := tb.TempDir()
	for _, d := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	for i, host := range hosts {
		control := fmt.Sprintf("@ 0x00000007\ni %d\no 0\nl <m@example.org>\ne alice@example.org\n"+
			"s smtp mx.example.org alice@example.org 0\nr           smtp %s bob@a.example 0\n"+
			"m\nReceived: by mx\n\tid 1\nSubject: x\nTo: you\n\n", i+1, host)
		for folder, text := range map[string]string{"transport": control, "queue": "hello\n"} {
			if err := os.WriteFile(filepath.Join(dir, folder, fmt.Sprint(i+1)), []byte(text), 0o644); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return filepath.Join(dir, "transport")
}

func peer(tb testing.TB, o smtptest.Options) (p *smtptest.Peer, port string) {
	tb.Helper()
	p, err := smtptest.Start(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	_, port, _ = net.SplitHostPort(p.Addr)
	return p, port
}

// agent returns the command, not yet started.
func agent(transport string, environment []string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"smtp"}, args...)
	cmd.Env = append([]string{"SMTP_HELPER_PROCESS=1", "GORACE=atexit_sleep_ms=0"}, environment...)
	cmd.Dir = transport
	return cmd
}

func TestSMTP(t *testing.T) {
	p, port := peer(t, smtptest.Options{})
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	secrets := filepath.Join(dir, "secrets")
	if err := os.WriteFile(secrets, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const host = "[127.0.0.1]"
	for _, c := range []struct {
		args, input, output, stderr string
		status                      int
	}{
		{args: "-V", output: "smtp " + version.Number + "\n"},
		{args: "-c smtp -p PORT", input: "1\t[127.0.0.1]\n#idle\n\n", output: "#hungry\n1/101 ok3\n#hungry\n#hungry\n"},
		// As scheduler.cf files in the field have it.
		{args: "-esrl LOG -p PORT -T conn=3m,tcpw=5m,cmd=5m,data=2m,dot=20m [127.0.0.1]", input: "1\n\n", output: "#hungry\n1/101 ok3\n#hungry\n"},
		{args: "-8EHPp PORT -F [127.0.0.1] -h me.example -w 65536 -6", input: "1\t[127.0.0.1]\n", output: "#hungry\n1/101 ok3\n#hungry\n"},
		{args: "-771xXp PORT -L 127.0.0.1", input: "1\t[127.0.0.1]\n", output: "#hungry\n1/101 ok3\n#hungry\n"},
		{args: "--marking scheduler --sessions 2 -p PORT", input: "1\t[127.0.0.1]\n", output: "#hungry\n#hungry\n1/101 ok3\n#hungry\n"},
		{args: "-d -p PORT", input: "1\t[127.0.0.1]\n", output: "#hungry\n1/101 ok3\n#hungry\n", stderr: "# smtp: 1 - <<- QUIT"},
		{args: "-W -O what -p PORT", output: "#hungry\n"},
		{args: "-l /nowhere/log -p PORT", input: "1\t[127.0.0.1]\n", output: "#hungry\n1/101 ok3\n#hungry\n", stderr: "# smtp: no protocol log: "},
		{args: "-p PORT", input: "2\t[127.0.0.1]\n", output: "#hungry\n#resync 2\n#hungry\n"},
		{args: "-M", status: 64, stderr: "-M needs -p or -F UNIX:/path"},
		{args: "-A /nowhere", status: 64, stderr: "no such file"},
		{args: "-A SECRETS", status: 64, stderr: "secrets:1: "},
		{args: "-S /nowhere", status: 64, stderr: "no such file"},
		{args: "--tls-policy /nowhere", status: 64, stderr: "no such file"},
		{args: "-T dot=never", status: 64, stderr: "timeout \"dot=never\""},
		{args: "-L iface:nowhere0", status: 64, stderr: "nowhere0"},
		{args: "-p 70000", status: 64, stderr: "port 70000"},
		{args: "-C 5", status: 64, stderr: "unknown shorthand flag"},
		{args: "--max-idle -1s", status: 64, stderr: "an interval consists"},
		{args: "--marking nobody", status: 64, stderr: "nobody"},
		{args: "one two", status: 64, stderr: "one host at most"},
		{args: "--what", status: 64, stderr: "--what"},
	} {
		args := strings.NewReplacer("PORT", port, "LOG", log, "SECRETS", secrets).Replace(c.args)
		cmd := agent(spool(t, host), nil, strings.Fields(args)...)
		cmd.Stdin = strings.NewReader(c.input)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, _ := cmd.Output()
		// Keep the recipient and the status of a report.
		said := regexp.MustCompile(`(?m)^(\d+/\d+)\t.*?\t(\w+) .*$`).ReplaceAllString(string(out), "$1 $2")
		if said != c.output || cmd.ProcessState.ExitCode() != c.status || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("smtp %s: %q, %q, %v", c.args, said, stderr.String(), cmd.ProcessState)
		}
	}
	if n := len(p.Messages()); n < 7 {
		t.Errorf("the peer has %d messages", n)
	}
	checkLog(t, log)
	cmd := agent(spool(t), []string{"ZCONFIG=/nowhere"}, "-c", "smtp")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "# smtp: reading zmailer.conf: ") {
		t.Errorf("without its zmailer.conf: %s, %v", out, err)
	}
}

// checkLog looks at a protocol log: every line has the pid, the number of the
// connection and the spoolid.
func checkLog(t *testing.T, log string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), " <<- MAIL From:<alice@example.org>") {
		t.Errorf("the protocol log has %q, %v", text, err)
	}
	line := regexp.MustCompile(`^\d+ 1 20\S+Z (S1Ab\S+|-) (<<-|->>) (.+)\n$`)
	for l := range strings.Lines(string(text)) {
		// The connection is opened for the message. QUIT is about none.
		if m := line.FindStringSubmatch(l); m == nil || (m[1] == "-") != (m[3] == "QUIT" || m[3] == "(close)") {
			t.Errorf("a line of the protocol log is %q", l)
		}
	}
}

// resolver is a DNS server on loopback in which every mx<n>.example is
// 127.0.0.<n>, and h<n>.example has that for its exchanger.
func resolver(tb testing.TB) string {
	tb.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		name := q.Question[0].Name
		var n int
		record := ""
		if _, err := fmt.Sscanf(name, "h%d.example.", &n); err == nil && q.Question[0].Qtype == dns.TypeMX {
			record = fmt.Sprintf("%s 60 IN MX 10 mx%d.example.", name, n)
		} else if _, err := fmt.Sscanf(name, "mx%d.example.", &n); err == nil && q.Question[0].Qtype == dns.TypeA {
			record = fmt.Sprintf("%s 60 IN A 127.0.0.%d", name, n)
		}
		if rr, err := dns.NewRR(record); err == nil && rr != nil {
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})}
	ready, stopped := make(chan bool), make(chan bool)
	server.NotifyStartedFunc = func() { close(ready) }
	go func() { _ = server.ActivateAndServe(); close(stopped) }()
	<-ready
	tb.Cleanup(func() { _ = server.Shutdown(); <-stopped })
	return pc.LocalAddr().String()
}

// One process holds 500 connections to 50 hosts of a slow peer, in 100 MB.
func TestFiveHundredConnections(t *testing.T) {
	sessions := 500
	if raced {
		sessions = 50
	}
	slow := smtptest.Options{Address: "0.0.0.0:0", Rules: []smtptest.Rule{{On: "dot", Do: "hold"}}}
	t.Run("plain", func(t *testing.T) { holdConnections(t, sessions, 50, slow) })
	t.Run("TLS", func(t *testing.T) {
		var err error
		if slow.TLS, _, err = smtptest.Certificate("mx.example"); err != nil {
			t.Fatal(err)
		}
		holdConnections(t, sessions, 50, slow)
	})
}

func holdConnections(tb testing.TB, sessions, hosts int, o smtptest.Options) {
	p, port := peer(tb, o)
	var to []string
	for i := range sessions {
		to = append(to, fmt.Sprintf("h%d.example", i%hosts+1))
	}
	cmd := agent(spool(tb, to...), nil, "-c", "smtp", "--sessions", fmt.Sprint(sessions), "-p", port, "--resolver", resolver(tb))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	for i, host := range to {
		if _, err := fmt.Fprintf(in, "%d\t%s\n", i+1, host); err != nil {
			tb.Fatal(err)
		}
	}
	p.AwaitMessages(sessions)
	if open, _, total := p.Connections(); open != sessions || total != sessions {
		tb.Errorf("%d connections are open, of %d", open, total)
	}
	resident, peak := memory(tb, cmd.Process.Pid)
	if tb.Logf("%d connections to %d hosts: %.1f MB resident, %.1f MB at most", sessions, hosts, resident, peak); resident > 100 && !raced {
		tb.Errorf("%.1f MB resident", resident)
	}
	p.Release()
	_ = in.Close()
	delivered := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "\tok3 ") {
			delivered++
		}
	}
	if err := cmd.Wait(); err != nil || delivered != sessions {
		tb.Errorf("%d delivered, %v", delivered, err)
	}
}

// memory returns the resident memory of a process, now and at most, in MB.
func memory(tb testing.TB, pid int) (now, most float64) {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kb); err == nil {
			now = kb / 1024
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kb); err == nil {
			most = kb / 1024
		}
	}
	return now, most
}
