package router

// NOTIFY of RFC 3461, from the envelope of a submission through aliases and lists to
// the notices that the sender gets: with the real router, scheduler and errormail.

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	"zsched/internal/testing/memdisk"
	"zsched/queue"
	"zsched/router/table"
	"zsched/ta"
	"zsched/ta/errormail"
)

// notifyValues are all that RFC 3461 section 4.1 allows, "" for no NOTIFY at all, and
// NEVER among others, which it forbids and which stays silent too.
var notifyValues = []string{
	"", "NEVER", "SUCCESS", "FAILURE", "DELAY", "SUCCESS,FAILURE", "SUCCESS,DELAY", "FAILURE,DELAY",
	"SUCCESS,FAILURE,DELAY", "NEVER,SUCCESS,FAILURE,DELAY",
}

// notifyShapes are what an address can be: the address itself, and the members of what
// it leads to. Each is tried with three domains, which say what becomes of their mail.
var notifyShapes = []struct {
	name    string
	members []string
	several bool // the members do not inherit SUCCESS
	list    bool // they inherit nothing
}{
	{name: "plain", members: []string{"ann"}},
	{name: "one", members: []string{"ann"}},
	{name: "two", members: []string{"ann", "bob"}, several: true},
	{name: "staff", members: []string{"ann", "bob"}, list: true},
	{name: "nested", members: []string{"ann", "bob"}, several: true}, // an alias for the alias two
}

var notifyDomains = []string{"fails.example", "works.example", "waits.example"}

// notifyAliases are the aliases of the shapes, such as two-fails.
func notifyAliases() string {
	var b strings.Builder
	for _, domain := range notifyDomains {
		fate, _, _ := strings.Cut(domain, ".")
		fmt.Fprintf(&b, "one-%[1]s: ann@%[2]s\ntwo-%[1]s: ann@%[2]s, bob@%[2]s\nnested-%[1]s: two-%[1]s\n"+
			"staff-%[1]s: ann@%[2]s, bob@%[2]s\nowner-staff-%[1]s: owner-of-%[1]s\n", fate, domain)
	}
	return b.String()
}

// notices are what the notices in mailboxes say: by addressee and the message that they
// are about, a line "address action" for each recipient.
type notices struct {
	mu  sync.Mutex
	got map[string][]string
}

func (n *notices) add(to, text string) {
	subject, status := "", strings.Split(text, "\n\n")
	for line := range strings.Lines(text) {
		if about, ok := strings.CutPrefix(line, "Subject: about "); ok {
			subject = strings.TrimSpace(about)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, group := range status {
		fields, _ := textproto.NewReader(bufio.NewReader(strings.NewReader(group + "\n\n"))).ReadMIMEHeader()
		if action := fields.Get("Action"); action != "" {
			_, address, _ := strings.Cut(fields.Get("Final-Recipient"), "; ")
			n.got[to+" "+subject] = append(n.got[to+" "+subject], address+" "+action)
		}
	}
}

func TestNOTIFYHoldsThroughAliasesAndLists(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"routes": "mx.example local\n* smtp\n", "aliases": notifyAliases()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loader := &table.Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
	if err := loader.Load(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { notifyThroughAliases(t, loader) })
}

func notifyThroughAliases(t *testing.T, loader *table.Loader) {
	office := "/notify"
	disk := memdisk.New(office, os.Geteuid(), rand.New(rand.NewPCG(1, 2)))
	defer postoffice.Mount(office, disk)()
	for _, name := range []string{"router", "public", "queue", "transport", "postman"} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, office+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	told := &notices{got: map[string][]string{}}
	tells := errormail.New(office, "", "mx.example")
	m := &machine{office: office, disk: disk, ledger: ledger.New(), log: zerolog.Nop(), closed: true, reportTimes: []time.Duration{90 * time.Second}}
	m.deliver = func(channel string, msg *ta.Message) {
		switch channel {
		case "error":
			tells.Deliver(msg)
		case "local":
			text, err := (&modelAgent{machine: m}).read(msg)
			if err != nil {
				t.Error(err)
			}
			for i := range msg.Recipients {
				told.add(msg.Recipients[i].User, text)
				msg.Recipients[i].Report(ta.Result{Status: ta.OK, Text: "delivered"})
			}
		default:
			meet(msg)
		}
	}
	if err := m.start(loader, rand.New(rand.NewPCG(3, 4))); err != nil {
		t.Fatal(err)
	}
	defer m.stop()
	want := map[string][]string{}
	for i, value := range notifyValues {
		for _, shape := range notifyShapes {
			for _, domain := range notifyDomains {
				fate, _, _ := strings.Cut(domain, ".")
				address := shape.name + "-" + fate + "@mx.example"
				if shape.name == "plain" {
					address = "ann@" + domain
				}
				sender := fmt.Sprintf("sender%d@mx.example", i)
				subject := fmt.Sprintf("%s of %s with NOTIFY=%s", fate, address, value)
				submitNotify(t, office, sender, subject, address, value)
				members := make([]string, len(shape.members))
				for j, name := range shape.members {
					members[j] = name + "@" + domain
				}
				owner := "owner-of-" + fate + "@mx.example"
				if shape.list {
					// The copies have no NOTIFY: their owner hears of failures only.
					want[owner+" "+subject] = wantedNotices(members, fate, "", false)
					members = nil
				}
				want[sender+" "+subject] = wantedNotices(members, fate, value, !shape.several)
			}
		}
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	told.mu.Lock()
	defer told.mu.Unlock()
	for about, lines := range want {
		got := told.got[about]
		delete(told.got, about)
		slices.Sort(lines)
		slices.Sort(got)
		if !slices.Equal(got, lines) {
			t.Errorf("%s: told of %q, want %q", about, got, lines)
		}
	}
	for about, lines := range told.got {
		t.Errorf("%s: told of %q", about, lines)
	}
	for _, dir := range []string{"router", "transport", "queue", "corrupt", "postman"} {
		if left := disk.Files(dir); len(left) > 0 {
			t.Errorf("left in %s: %q", dir, left)
		}
	}
}

// asks reports whether a NOTIFY value asks for notices of one kind.
func asks(value, kind string) bool {
	list := strings.Split(value, ",")
	return !slices.Contains(list, "NEVER") && (slices.Contains(list, kind) || value == "" && kind == "FAILURE")
}

// wantedNotices are what the sender has to be told of recipients with a fate.
func wantedNotices(members []string, fate, value string, ofSuccess bool) (lines []string) {
	for _, address := range members {
		if fate == "fails" && asks(value, "FAILURE") {
			lines = append(lines, address+" failed")
		}
		if fate == "waits" && asks(value, "DELAY") {
			lines = append(lines, address+" delayed")
		}
		if fate != "fails" && ofSuccess && asks(value, "SUCCESS") {
			lines = append(lines, address+" relayed")
		}
	}
	return lines
}

func submitNotify(t *testing.T, office, sender, subject, to, value string) {
	t.Helper()
	r := &ctlfile.Recipient{Address: ctlfile.Address{User: to}}
	if value != "" {
		r.DSN = "NOTIFY=" + value
	}
	s := &queue.Submission{By: "user@mx.example", From: ctlfile.Address{User: sender}, Header: "Subject: about " + subject + "\n", To: []*ctlfile.Recipient{r}}
	file, err := s.Write(office, "sendmail-", strings.NewReader("body\n"))
	if err == nil {
		_, err = queue.Router{Postoffice: office}.Give(file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// meet does with each recipient what its domain says. Mail to waits.example is delivered
// after three minutes.
func meet(msg *ta.Message) {
	for i := range msg.Recipients {
		r := &msg.Recipients[i]
		switch _, domain, _ := strings.Cut(r.User, "@"); {
		case domain == "fails.example":
			r.Report(ta.Result{Status: ta.Error, Fields: ta.Fields{Code: "5.1.1", Diagnostic: "smtp; 550 no such user"}, Text: "no such user"})
		case domain == "waits.example" && time.Since(msg.ModifiedAt) < 3*time.Minute:
			r.Report(ta.Result{Status: ta.Deferred, Fields: ta.Fields{Code: "4.2.0", Diagnostic: "smtp; 450 later"}, Text: "later"})
		default:
			r.Report(ta.Result{Status: ta.OK2, Fields: ta.Fields{Action: "relayed", Code: "2.0.0", Diagnostic: "smtp; 250 ok"}, Text: "relayed"})
		}
	}
}
