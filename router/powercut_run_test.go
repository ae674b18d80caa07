package router

// One run of the simulated power cuts: lives of the machine, and what is checked after them.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	"zsched/internal/testing/memdisk"
	"zsched/router/table"
	"zsched/scheduler/view"
	"zsched/ta"
)

// simulation is one run: a machine that loses its power several times.
type simulation struct {
	t      *testing.T
	rand   *rand.Rand
	loader *table.Loader
	office string
	disk   *memdisk.Disk
	ledger *ledger.Ledger
	junk   map[string]bool // texts of malformed files that were on disk
	held   map[string]bool // threads that were held until released
	levels int
	life   int
	sent   int
	log    zerolog.Logger
	total  *figures
}

func powerCutRun(t *testing.T, loader *table.Loader, seed uint64, total *figures) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, loader, seed, total)
		defer postoffice.Mount(s.office, s.disk)()
		s.run()
		total.runs++
		for what, n := range s.ledger.Doubles() {
			total.doubles[what] += n
		}
		all, accepted := s.ledger.Count()
		total.recipients, total.accepted = total.recipients+all, total.accepted+accepted
		if t.Failed() {
			s.explain()
			t.Logf("seed %d; run it alone with -powercut.seed=%d", seed, seed)
		}
	})
}

func newSimulation(t *testing.T, loader *table.Loader, seed uint64, total *figures) *simulation {
	s := &simulation{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), loader: loader, office: fmt.Sprintf("/power-cut-%d", seed),
		ledger: ledger.New(), junk: map[string]bool{}, held: map[string]bool{}, total: total,
	}
	s.log = zerolog.New(note(func(line string) { s.disk.Trace(line) })).Level(zerolog.InfoLevel)
	s.disk = memdisk.New(s.office, os.Geteuid(), rand.New(rand.NewPCG(seed, 2)))
	return s
}

func (s *simulation) run() {
	s.makeDirs()
	for range cutsInRun {
		s.live()
		if s.t.Failed() {
			return
		}
	}
	s.settle()
}

// makeDirs chooses the hash levels and makes the directories of the postoffice.
func (s *simulation) makeDirs() {
	s.levels = s.rand.IntN(3)
	for _, name := range []string{"", "router", "public", "queue", "transport", "postman"} {
		if err := s.makeDir(name); err != nil {
			s.t.Fatal(err)
		}
	}
}

// makeDir makes a directory as an installation does, on disk.
func (s *simulation) makeDir(name string) error {
	if name == "" {
		return nil
	}
	err := postoffice.MakeDir(postoffice.WorkingDir, s.office+"/"+name, 0o755)
	if err == nil {
		var root *postoffice.File
		if root, err = postoffice.OpenDirFile(s.office); err == nil {
			err = root.SyncAll()
			_ = root.Close()
		}
	}
	return err
}

func (s *simulation) machine() *machine {
	s.life++
	return &machine{office: s.office, disk: s.disk, ledger: s.ledger, life: s.life, levels: s.levels, log: s.log}
}

// live runs the machine until its power goes, and puts it on again.
func (s *simulation) live() {
	wanted := ""
	if s.rand.IntN(3) == 0 {
		s.disk.CutAt(1+s.rand.IntN(50<<s.rand.IntN(5)), func(string) bool { return true })
	} else {
		wanted = cutSteps[s.rand.IntN(len(cutSteps))]
		s.disk.CutAt(1+s.rand.IntN(3), func(call string) bool { return step(call) == wanted })
	}
	m := s.machine()
	m.faults = s.rand.IntN(3) == 0
	if m.start(s.loader, rand.New(rand.NewPCG(s.rand.Uint64(), 3))) == nil {
		s.use(m, wanted)
	}
	s.disk.Cut()
	_, at := s.disk.IsOff()
	s.total.cuts++
	s.total.calls += s.disk.Calls()
	s.total.steps[step(at)]++
	m.stop()
	s.total.faults += s.disk.Failed()
	s.disk.SetFaults(memdisk.Faults{})
	kept := []float64{0, 0.1, 0.5, 0.9, 1}[s.rand.IntN(5)]
	s.disk.Trace(fmt.Sprintf("POWER CUT in life %d at %s; %v is kept", s.life, at, kept))
	s.disk.PowerOn(kept)
	s.checkHeldThreads()
	s.ledger.Close(s.survivors())
}

// survivors returns what is on disk after a power cut and may lead to another delivery,
// or to another notice: the addresses of open recipients and of those whose notice is not
// marked as sent, and the texts of submissions and of notices that are not delivered. A
// tag that has survived ends a recipient for good, and so does a file that is gone.
func (s *simulation) survivors() (open, owed string) {
	var mail, news strings.Builder
	notices := map[string]bool{}
	for _, file := range s.disk.Files("") {
		text := s.disk.Content(file)
		dir, message, _ := strings.Cut(file, "transport/")
		switch {
		case dir == "corrupt/":
		case strings.HasPrefix(file, "router/") || strings.HasPrefix(file, "public/") || strings.HasPrefix(file, "queue/.tmp/"):
			mail.WriteString(text)
		case message == "":
			// Message files: their control files say what becomes of them.
		default:
			f, err := ctlfile.Parse([]byte(text))
			if err != nil {
				mail.WriteString(text)
				continue
			}
			if openRecipients(f, &mail, &news) && f.NullSender {
				notices[messageNumber(filepath.Base(message))] = true
			}
		}
	}
	for _, file := range s.disk.Files("") {
		// The message file may be in another directory: the move is completed.
		if notices[filepath.Base(file)] && strings.Contains(file, "queue/") {
			news.WriteString(s.disk.Content(file))
		}
	}
	return mail.String(), news.String()
}

// messageNumber returns the name of the message file of a control file. The name of a staged
// copy begins with its spoolid.
func messageNumber(name string) string {
	spoolID, _, staged := strings.Cut(name, ",")
	if number, ok := ctlfile.SpoolNumber(spoolID); staged && ok {
		return strconv.FormatUint(number, 10)
	}
	return strings.TrimLeft(name, ".")
}

// openRecipients writes the addresses of the recipients of a control file that are open,
// and of those whose senders have still to be told. It reports whether any is open.
func openRecipients(f *ctlfile.File, mail, news *strings.Builder) (any bool) {
	settled, told := map[int64]bool{}, map[int64]bool{}
	for _, d := range f.Diagnostics {
		if action := ta.Notary(d.Notary).Action(); action != "" && action != "delayed" {
			settled[d.Recipient] = true
			told[d.Recipient] = d.Tag == ctlfile.Delivered
		}
	}
	for _, r := range f.Recipients {
		if (r.Tag == ctlfile.Open || r.Tag == ctlfile.Locked) && !settled[r.Offset] {
			mail.WriteString(r.User + "\n")
			any = true
		}
		if !told[r.Offset] {
			news.WriteString(r.User + "\n")
		}
	}
	return any
}

// step is the kind of step that a call belongs to.
func step(call string) string {
	verb, rest, _ := strings.Cut(call, " ")
	if verb == "between" || verb == "sync" && rest == "everything" {
		return call
	}
	var places []string
	for file := range strings.FieldsSeq(rest) {
		var dirs []string
		for word := range strings.SplitSeq(file, "/") {
			if len(word) > 1 && word[0] != '.' && !strings.ContainsAny(word, "0123456789+:") || word == ".router" || word == ".scheduler" || word == ".tmp" || word == ".threads" {
				dirs = append(dirs, word)
			}
		}
		if len(dirs) > 0 {
			places = append(places, strings.Join(dirs, "/"))
		}
	}
	return strings.TrimSpace(verb + " " + strings.Join(places, " to "))
}

// use submits mail and gives orders until the power goes, for some minutes at most.
// Orders are more frequent if the wanted step is one of theirs.
func (s *simulation) use(m *machine, wanted string) {
	orders := strings.Contains(wanted, "hold") || strings.HasSuffix(wanted, " to transport") || strings.HasSuffix(wanted, " to queue")
	for range 5 + s.rand.IntN(25) {
		if off, _ := s.disk.IsOff(); off {
			return
		}
		choice := s.rand.IntN(8)
		if orders && s.rand.IntN(2) == 0 {
			choice = 4
		}
		switch choice {
		case 0, 1, 2, 3:
			s.submit(m)
		case 4, 5:
			if s.rand.IntN(4) == 0 || strings.Contains(wanted, "threads") {
				s.holdThread(m)
			} else {
				s.order(m)
			}
		case 6:
			if m.faults {
				s.fault()
			}
		case 7:
			if s.rand.IntN(4) == 0 {
				s.sent++
				if text, err := m.junk(s.sent); err == nil {
					s.junk[text] = true
				}
			}
		}
		time.Sleep(time.Duration(s.rand.IntN(40)) * time.Second / time.Duration(1+s.rand.IntN(10)))
		synctest.Wait()
	}
}

// fault makes calls fail, or ends that.
func (s *simulation) fault() {
	var f memdisk.Faults
	switch s.rand.IntN(3) {
	case 0:
		f.Probability = []float64{0.02, 0.2, 1}[s.rand.IntN(3)]
		f.Error = memdisk.Errors[s.rand.IntN(len(memdisk.Errors))]
		if f.Error == 4 && f.Probability == 1 {
			f.Probability = 0.5 // a call that a signal always interrupts never ends
		}
	case 1:
		f.Space = s.disk.Used() + int64(s.rand.IntN(3000))
	}
	s.disk.Trace(fmt.Sprintf("FAULTS %+v", f))
	s.disk.SetFaults(f)
}

// submit submits messages, some at the same time.
func (s *simulation) submit(m *machine) {
	for range 1 + s.rand.IntN(4) {
		s.submitOne(m, func() (ledger.Fate, bool) { return ledger.Fate(s.rand.IntN(4)), s.rand.IntN(3) == 0 })
	}
}

// submitOne submits a message. fate chooses what happens to a recipient, and whether the
// sender wants to know of a success.
func (s *simulation) submitOne(m *machine, fate func() (is ledger.Fate, wantsSuccess bool)) {
	s.sent++
	msg := &message{sender: fmt.Sprintf("sender%d@mx.example", s.sent)}
	for i := range 1 + s.rand.IntN(3) {
		e := &ledger.Entry{Address: fmt.Sprintf("r%d.%d@h%d.example", s.sent, i, s.rand.IntN(3)), Sender: msg.sender}
		e.Fate, e.WantsSuccess = fate()
		msg.to = append(msg.to, e)
		s.ledger.Add(e)
	}
	s.send(m, msg)
}

// send submits a message in one of the two ways.
func (s *simulation) send(m *machine, msg *message) {
	way := m.overSMTP
	if s.rand.IntN(2) == 0 {
		way = m.byProgram
	}
	m.all.Go(func() {
		if way(msg) == nil {
			s.ledger.Accept(msg.addresses())
		}
	})
}

// order gives an order about some message.
func (s *simulation) order(m *machine) {
	files := s.disk.Files("transport")
	verbs := []view.Verb{view.VerbHold, view.VerbHold, view.VerbRetry, view.VerbRequeue, view.VerbReroute, view.VerbExpire}
	if held := s.disk.Files("hold/transport"); len(held) > 0 && s.rand.IntN(2) == 0 {
		files, verbs = held, []view.Verb{view.VerbRelease, view.VerbRequeue, view.VerbReroute, view.VerbExpire}
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f)[0] == '.' })
	if len(files) == 0 {
		return
	}
	file, verb := files[s.rand.IntN(len(files))], verbs[s.rand.IntN(len(verbs))]
	if verb == view.VerbExpire && strings.Contains(s.disk.Content(file), "\ns error") {
		return // a notice about a notice is not owed
	}
	if verb == view.VerbRequeue || verb == view.VerbReroute {
		// The order names a number. A crash may have left a control file in hold/ whose
		// number another message in the queue has now.
		for _, other := range slices.Concat(s.disk.Files("transport"), s.disk.Files("hold/transport")) {
			if filepath.Base(other) == filepath.Base(file) {
				s.resent(s.disk.Content(other))
			}
		}
	}
	spell := time.Duration(s.rand.IntN(2)*(1+s.rand.IntN(20))) * time.Minute
	s.disk.Trace(fmt.Sprintf("ORDER %s %s", verb, file))
	m.all.Go(func() { _ = m.order(verb, file, spell) })
}

// holdThread holds a thread or releases it.
func (s *simulation) holdThread(m *machine) {
	host, verb := fmt.Sprintf("h%d.example", s.rand.IntN(3)), view.VerbHold
	if s.rand.IntN(2) == 0 {
		verb = view.VerbRelease
	}
	spell := time.Duration(s.rand.IntN(2)*(1+s.rand.IntN(20))) * time.Minute
	s.disk.Trace(fmt.Sprintf("ORDER %s thread %s", verb, host))
	already := strings.Contains(s.holdRecords(), host)
	s.held[host] = s.held[host] && verb == view.VerbHold && spell == 0
	if m.thread(verb, host, spell) == nil && verb == view.VerbHold && spell == 0 && !already {
		s.held[host] = true
	}
}

// checkHeldThreads checks that the threads that were held until released still are.
func (s *simulation) checkHeldThreads() {
	list := s.holdRecords()
	for host, held := range s.held {
		if held && !strings.Contains(list, host) {
			s.t.Errorf("the thread of %s is not held any more: %q", host, list)
		}
	}
}

// holdRecords returns the text of all hold records.
func (s *simulation) holdRecords() (all string) {
	for _, file := range s.disk.Files("hold/orders") {
		all += s.disk.Content(file)
	}
	return all
}

// resent notes that the recipients of a control file may be sent twice.
func (s *simulation) resent(control string) {
	s.ledger.Change(control, func(e *ledger.Entry) { e.Resent = true })
}

// settle runs the machine without any fault until every promise is kept.
func (s *simulation) settle() {
	m := s.machine()
	m.closed = true
	if err := m.start(s.loader, rand.New(rand.NewPCG(s.rand.Uint64(), 3))); err != nil {
		s.t.Fatalf("the programs do not start: %v", err)
	}
	defer m.stop()
	end := time.Now().Add(30 * time.Hour)
	for pause := time.Second; time.Now().Before(end); pause = min(2*pause, 10*time.Minute) {
		time.Sleep(pause)
		synctest.Wait()
		for host := range 3 {
			_ = m.thread(view.VerbRelease, fmt.Sprintf("h%d.example", host), 0)
		}
		for _, file := range s.disk.Files("hold/transport") {
			if err := m.order(view.VerbRelease, file, 0); err != nil {
				s.disk.Trace(fmt.Sprintf("release %s: %v", file, err))
			}
		}
		if len(s.ledger.Unkept()) == 0 {
			break
		}
	}
	lost := s.ledger.Unkept()
	s.total.losses += len(lost)
	for _, why := range slices.Concat(lost, s.ledger.Wrong()) {
		s.t.Error(why)
	}
	s.checkJunk()
}

// explain logs what led to a failure.
func (s *simulation) explain() {
	s.t.Logf("what happened:\n%s", strings.Join(s.disk.Trace(""), "\n"))
	s.t.Logf("left on the disk:\n%s", strings.Join(s.disk.Files(""), "\n"))
	for _, f := range s.disk.Files("") {
		if strings.Contains(f, "corrupt") {
			s.t.Logf("--- %s\n%q", f, s.disk.Content(f))
		}
	}
}

// checkJunk checks that malformed files are somewhere.
func (s *simulation) checkJunk() {
	if len(s.junk) == 0 {
		return
	}
	var all strings.Builder
	for _, file := range s.disk.Files("") {
		all.WriteString(s.disk.Content(file) + "\n")
	}
	for text := range s.junk {
		for _, dir := range []string{"queue", "transport"} {
			if !strings.Contains(all.String(), text+" in "+dir+"\n") {
				s.t.Errorf("%q of %s is gone", text, dir)
			}
		}
	}
}
