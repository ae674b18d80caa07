package config

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/scheduler/rule"
)

// entry is a row and what the first sentence of the comment of its field says: "Meaning; 0: none."
type entry struct {
	row
	meaning, zero string
}

// described returns the entries of a table, whose fields are in these files.
func described(t *testing.T, table []row, files ...string) (all []entry) {
	t.Helper()
	comments := make(map[string]string)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok && field.Tag != nil {
				name := cmp.Or(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("name"), strings.ToLower(field.Names[0].Name))
				comments[name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
			}
			return true
		})
	}
	for _, r := range table {
		sentence, _, _ := strings.Cut(comments[r.name]+" ", ". ")
		e := entry{row: r}
		e.meaning, e.zero, _ = strings.Cut(strings.TrimSpace(sentence), "; 0: ")
		all = append(all, e)
	}
	return all
}

func describedKeywords(t *testing.T) []entry {
	return described(t, keywords, "../rule/params.go", "../limit/window.go")
}

func describedParams(t *testing.T) []entry { return described(t, params, "param.go") }

// heading is the line of scheduler.cf(5) that begins an entry.
func heading(r *entry, prefix string) string {
	var b strings.Builder
	if len(r.aliases) > 0 {
		fmt.Fprintf(&b, "also %s; ", prefix+strings.Join(r.aliases, ", "+prefix))
	}
	b.WriteString(r.kind.form)
	if r.preset == "" {
		b.WriteString("; no default")
	} else {
		b.WriteString("; default " + r.preset)
	}
	if r.zero != "" {
		b.WriteString("; 0: " + r.zero)
	}
	line := fmt.Sprintf(`.BR %s " (%s)"`, prefix+r.name, b.String())
	return strings.ReplaceAll(line, "-", `\-`)
}

// entries are the parts of a manual page that begin with ".TP" and ".BR name",
// by name.
func entries(t *testing.T, page string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	name := regexp.MustCompile(`^\.BR (\S+) " \(`)
	for _, part := range strings.Split(string(data), "\n.TP\n")[1:] {
		part, _, _ = strings.Cut(part, "\n.S")
		if m := name.FindStringSubmatch(part); m != nil {
			key := strings.ReplaceAll(m[1], `\-`, "-")
			if out[key] != "" {
				t.Errorf("%s has two entries for %s", page, key)
			}
			out[key] = part
		}
	}
	return out
}

const manual = "../../man/scheduler.cf.5"

// TestManualIsWritten gives, with -update, each row the heading of its entry, and a new one
// an entry at the end of its part.
func TestManualIsWritten(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	data, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, r := range describedKeywords(t) {
		page = withEntry(page, &r, "", ".SS Parameters of the scheduler")
	}
	for _, r := range describedParams(t) {
		page = withEntry(page, &r, "PARAM", ".SS Obsolete keywords")
	}
	before, _, after := cutWords(page)
	if err := os.WriteFile(manual, []byte(before+wordList()+after), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestManualHasEveryKeywordAndNoOther(t *testing.T) {
	have := entries(t, manual)
	var known []string
	for _, r := range describedKeywords(t) {
		known = append(known, r.name)
		checkEntry(t, &r, "", have[r.name])
	}
	for _, r := range describedParams(t) {
		known = append(known, "PARAM"+r.name)
		checkEntry(t, &r, "PARAM", have["PARAM"+r.name])
	}
	for name := range have {
		if !slices.Contains(known, name) {
			t.Errorf("the manual page explains %s, which does not exist", name)
		}
	}
}

// zmailers are the other keywords and PARAMs that ZMailer's scheduler knows. It refuses a
// file with any other word.
var zmailers = []string{
	"interval", "retries", "expiry", "expiry2", "queueonly", "wakeuprestartonly", "reporttimes",
	"command", "user", "group", "nice", "priority", "idlemax",
	"maxta", "maxchannel", "maxring", "maxthr", "overfeed", "ageorder",
	"PARAMmailqpath", "PARAMauthfile", "PARAMnotifysock", "PARAMglobal-report-interval", "PARAMstore-error-on-error",
}

// newWords returns the words that ZMailer does not know: to go back to it, they must be
// removed.
func newWords() (words []string) {
	all := names(keywords)
	for _, name := range names(params) {
		all = append(all, "PARAM"+name)
	}
	for _, name := range all {
		known := func(old string) bool { return strings.EqualFold(old, name) }
		row := find(keywords, name)
		if alias := row != nil && row.name != name || name == "PARAMmailqsock"; alias || slices.ContainsFunc(zmailers, known) {
			continue
		}
		words = append(words, name)
	}
	words = append(words, "reply")
	slices.Sort(words)
	return words
}

// cutWords cuts the list of new words out of the manual page.
func cutWords(page string) (before, list, after string) {
	const begin, end = "\nThese words are new:\n", "\nTo go back to ZMailer"
	i := strings.Index(page, begin) + len(begin)
	j := i + strings.Index(page[i:], end)
	return page[:i], page[i:j], page[j:]
}

func TestManualListsTheWordsThatZMailerDoesNotKnow(t *testing.T) {
	page, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := cutWords(string(page))
	if want := wordList(); list != want {
		t.Errorf("the manual page should list\n%s", want)
	}
}

func wordList() string {
	list := ".BR " + strings.Join(newWords(), " ,\n.BR ")
	i := strings.LastIndex(list, " ,\n.BR ")
	list = list[:i] + "\nand\n.BR " + list[i+len(" ,\n.BR "):] + " ."
	return strings.ReplaceAll(list, "-", `\-`)
}

func withEntry(page string, r *entry, prefix, before string) string {
	name := strings.ReplaceAll(prefix+r.name, "-", `\-`)
	old := regexp.MustCompile(`(?m)^\.BR ` + regexp.QuoteMeta(name) + ` " \(.*$`)
	if old.MatchString(page) {
		return old.ReplaceAllLiteralString(page, heading(r, prefix))
	}
	entry := fmt.Sprintf(".TP\n%s\n%s.\n.IP\n.EX\n%s=%s\n.EE\n",
		heading(r, prefix), r.meaning, name, r.preset)
	return strings.Replace(page, before, entry+before, 1)
}

func checkEntry(t *testing.T, r *entry, prefix, text string) {
	t.Helper()
	name := prefix + r.name
	want := heading(r, prefix)
	head, body, _ := strings.Cut(text, "\n")
	if head != want {
		t.Errorf("the manual page should have\n%s\nand has\n%s", want, head)
		return
	}
	if r.meaning == "" {
		t.Errorf("%s has no meaning", name)
	}
	if plain := strings.Join(strings.Fields(body), " "); !strings.HasPrefix(plain, r.meaning) {
		t.Errorf("the entry of %s should begin with its meaning, %q, and is\n%s", name, r.meaning, body)
	}
	if !regexp.MustCompile(regexp.QuoteMeta(strings.ReplaceAll(name, "-", `\-`)) + `[ =\n]`).MatchString(body) {
		t.Errorf("the entry of %s has no example", name)
	}
}

// The example is what most people will read instead of the manual.
func TestExampleLoadsWithoutAWord(t *testing.T) {
	file := example(t)
	for _, w := range file.Warnings {
		t.Error(w)
	}
	for _, channel := range []string{"local", "hold", "smtp"} {
		if !slices.ContainsFunc(patterns(file), func(p string) bool { return strings.HasPrefix(p, channel+"/") }) {
			t.Errorf("no clause for the channel %s", channel)
		}
	}
	for i, p := range patterns(file) {
		if got := file.Effective(i).Expiry; got < 72*time.Hour {
			t.Errorf("mail of %s expires after %s, sooner than after three days", p, got)
		}
	}
}

// localClause finds the clause of an example for local mail.
var localClause = regexp.MustCompile(`(?m)^local/\*(.*(?:\n[ \t].*)*)`)

// All local users are one thread, and a user can stop the deliveries to himself.
// The agent keeps half of its sessions for others, if it has several and the
// thread may use them.
func TestNoExampleLetsOneUserStopLocalMail(t *testing.T) {
	for _, name := range []string{"scheduler.cf.example", "man/scheduler.cf.5", "man/mailbox.8",
		"packaging/demo", "packaging/demo-mta", "packaging/attack/site.go"} {
		data, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := localClause.FindAllString(string(data), -1)
		if len(found) == 0 {
			t.Errorf("%s has no clause for local mail", name)
		}
		for _, text := range found {
			text = strings.NewReplacer(`\-`, "-", `\$`, "$").Replace(text)
			file, err := Parse(name, []byte(text+"\n"), debian(0))
			if err != nil {
				t.Error(err)
				continue
			}
			p := file.Scheduler.Defaults
			for _, setting := range file.Scheduler.Clauses[0].Settings {
				setting.Apply(&p)
			}
			if p.MaxThr < 2 || p.Sessions < 2 || !strings.Contains(text, "--sessions ${sessions}") {
				t.Errorf("%s: maxthr=%d sessions=%d in\n%s", name, p.MaxThr, p.Sessions, text)
			}
		}
	}
}

// Agents that are not root have the group of the control files: transport/ gets the group of
// the first clause with such agents. Whoever else has that group can become root.
func TestNoExampleGivesOthersTheGroupOfControlFiles(t *testing.T) {
	account := regexp.MustCompile(`\buser=(\S+) group=(\S+)`)
	seen := 0
	for _, pattern := range []string{"scheduler.cf.example", "README.md", "man/*", "packaging/*", "packaging/systemd/*"} {
		names, err := filepath.Glob("../../" + pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				continue // a directory
			}
			for _, m := range account.FindAllStringSubmatch(string(data), -1) {
				seen++
				root, own := m[1] == "root" && m[2] == "root", strings.HasPrefix(m[1], "$(id ")
				if !root && !own && m[2] != "mailagent" {
					t.Errorf("%s has %s", name, m[0])
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d examples were found", seen)
	}
	// The others take the values of the clause for all.
	file := example(t)
	for i, p := range patterns(file) {
		if have := file.Effective(i); have.UID != 0 || have.GID != 0 {
			t.Errorf("agents of %s in scheduler.cf.example have user %d and group %d", p, have.UID, have.GID)
		}
	}
}

// make all builds the agents that have a folder in cmd/ta.
func TestProgramsOfTheExampleAreBuilt(t *testing.T) {
	agents, err := filepath.Glob("../../cmd/ta/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Mkdir(filepath.Join(bin, "ta"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, main := range agents {
		if err := os.WriteFile(filepath.Join(bin, "ta", filepath.Base(filepath.Dir(main))), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if faults := example(t).CheckPrograms(bin); len(faults) > 0 {
		t.Error(faults)
	}
}

// Exceptions have what they do not name from the first clause of their channel, and the command of
// the last. So a server that answers nothing keeps no session for longer than half an hour.
func TestExceptionsOfTheExampleGetTheRest(t *testing.T) {
	config := example(t).Scheduler
	for host, maxthr := range map[string]int{"x.example": 10, "x.dialup.example.org": 10, "x.big.example.com": 40, "mx.bulk.example.net": 40} {
		have := config.Fold(rule.Match(config.Clauses, "smtp", host))
		if have.AgentTimeout != 30*time.Minute || len(have.Command) == 0 || have.MaxThr != maxthr || have.Sessions != 20 {
			t.Errorf("%s: %v, %q, maxthr=%d sessions=%d", host, have.AgentTimeout, have.Command, have.MaxThr, have.Sessions)
		}
	}
}

// example is scheduler.cf.example.
func example(t *testing.T) *File {
	t.Helper()
	data, err := os.ReadFile("../../scheduler.cf.example")
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse("scheduler.cf.example", data, debian(0))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func patterns(f *File) []string {
	var out []string
	for i := range f.Scheduler.Clauses {
		out = append(out, patternOf(&f.Scheduler.Clauses[i]))
	}
	return out
}
