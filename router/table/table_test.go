package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const routesText = `# who gets what
mx.example        local
boss@other.example smtp vip.example   # one address
*.partner.example smtp [192.0.2.25]
Old.Example       error nosuchdomain
*.example         smtp
`

const aliasesText = `# names
staff: ann@a.example, bob,
	"carol c"@b.example

owner-staff: dave
one: ann@a.example
two: ann@a.example, bob
sales@shop.example: dave
root: root, eve@a.example
bob: \bob, archive
archive: "|/bin/archive \"x, y\"", /var/log/mail.box
ring: round
round: ring+x
`

func newTable(t *testing.T) *Table {
	t.Helper()
	routes, errs := ParseRoutes("routes", routesText)
	aliases, more := parseAliases(t, "aliases", aliasesText)
	if len(errs)+len(more) > 0 {
		t.Fatal(errs, more)
	}
	return &Table{Routes: routes, Aliases: aliases, Domain: "mx.example"}
}

// parseAliases reads a table with this text, whose name in errors is file.
func parseAliases(t *testing.T, file, text string) (*Aliases, []error) {
	t.Helper()
	t.Chdir(t.TempDir())
	return ReadAliases(write(t, file, text, 0o644))
}

// show is a target in one line.
func show(t Target) string {
	s := fmt.Sprintf("%s %s %s", t.Channel, t.Host, t.User)
	if t.UID != nobody {
		s += fmt.Sprint(" uid ", t.UID)
	}
	if t.Owner != "" {
		s += " owner " + t.Owner
	}
	if t.DSN != "" {
		s += " " + t.DSN
	}
	return s
}

// route returns the targets of the only recipient of a message.
func route(t *Table, address, dsn string) []Target {
	return t.NewExpansion(1000000).Route(address, dsn)
}

func TestRecipientsAreRouted(t *testing.T) {
	table := newTable(t)
	for _, c := range []struct{ address, dsn, want string }{
		{"<x@A.example>", "", "smtp a.example x@A.example"},
		{"x@up.partner.example", "", "smtp [192.0.2.25] x@up.partner.example"},
		{"boss@other.example", "NOTIFY=NEVER", "smtp vip.example boss@other.example NOTIFY=NEVER"},
		{"x@old.example", "", "error nosuchdomain x@old.example"},
		{"x@elsewhere.org", "", "error unresolvable x@elsewhere.org"},
		{"ann", "", "local ann ann@mx.example"},
		{"<@relay.example,@b:x@a.example>", "", "smtp a.example x@a.example"},
		{"x@a.example.", "", "smtp a.example x@a.example"},
		{"|/bin/sh", "", "error badaddress |/bin/sh"},
		{"/etc/passwd", "", "error badaddress /etc/passwd"},
		{":include:/etc/passwd", "", "error badaddress :include:/etc/passwd"},
		{`"|sh"@mx.example`, "", `error badaddress "|sh"@mx.example`},
		{"", "", "error badaddress <>"},
		{strings.Repeat("x", 3000), "", "error badaddress " + strings.Repeat("x", maxAddress)},
		{"root", "", "local root root@mx.example; smtp a.example eve@a.example"},
		{"postmaster@MX.example", "", "local root root@mx.example; smtp a.example eve@a.example"},
		{"sales@shop.example", "", "local dave dave@mx.example"},
		{"sales@other.shop.example", "", "smtp other.shop.example sales@other.shop.example"},
		{"ring", "", "error aliasloop ring+x@mx.example"},
		{"archive+2026", "", `local archive |/bin/archive "x, y" uid 0; local archive /var/log/mail.box uid 0`},
		{"bob", "", `local bob bob@mx.example; local archive |/bin/archive "x, y" uid 0; local archive /var/log/mail.box uid 0`},
	} {
		var got []string
		for _, target := range route(table, c.address, c.dsn) {
			if c.dsn == "" {
				target.DSN = "" // the next test is about ORCPT
			}
			got = append(got, show(target))
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%.40q: %s\nwant %s", c.address, text, c.want)
		}
	}
}

// Each user is a host of channel local, without detail and in lower case. What could not
// be a word of a job line, or is very long, is not.
func TestUsersAreHosts(t *testing.T) {
	for local, want := range map[string]string{"ann": "ann", "Ann+x+y": "ann", "j.o-e_1": "j.o-e_1", "grüße": "grüße", "+x": "-", "": "-",
		`"a b"`: "-", `"ann+a b"`: "ann", "a/b": "-", "a\tb": "-", strings.Repeat("x", 64): strings.Repeat("x", 64), strings.Repeat("x", 65): "-"} {
		if got := userHost(local); got != want {
			t.Errorf("%q: host %q, want %q", local, got, want)
		}
	}
}

func TestDSNParametersThroughAliases(t *testing.T) {
	table := newTable(t)
	const asked = "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;x@old.example"
	const original = " ORCPT=rfc822;x@old.example"
	for address, want := range map[string][]string{
		"one":   {"smtp a.example ann@a.example " + asked + " INRCPT=rfc822;one@mx.example"},
		"two":   {"smtp a.example ann@a.example NOTIFY=FAILURE" + original + " INRCPT=rfc822;two@mx.example"},
		"staff": {"smtp a.example ann@a.example owner owner-staff@mx.example INRCPT=rfc822;staff@mx.example"},
	} {
		for i, w := range want {
			if got := show(route(table, address, asked)[i]); got != w {
				t.Errorf("%s: %s", address, got)
			}
		}
	}
	if got := route(table, "two", "NOTIFY=SUCCESS BY=60;R")[0].DSN; got != "NOTIFY=NEVER BY=60;R ORCPT=rfc822;two@mx.example" {
		t.Error(got)
	}
	// A recipient that is submitted again keeps the first address that an alias replaced.
	again := asked + " INRCPT=rfc822;first@mx.example"
	if got := route(table, "one", again)[0].DSN; got != again {
		t.Error(got)
	}
	for _, target := range route(table, "staff", asked) {
		if target.Owner != "owner-staff@mx.example" || strings.Contains(target.DSN, "x@old.example") {
			t.Errorf("%+v", target)
		}
	}
}

func TestUnknownUsersFailWhereUsersAreChecked(t *testing.T) {
	table := newTable(t)
	table.HasUser = func(name string) bool { return name == "ann" || name == "root" }
	for address, want := range map[string]string{
		"ann": "local", "Ann+x": "local", "nobody": "error", "postmaster": "local", "zed@a.example": "smtp",
	} {
		if got := route(table, address, "")[0]; got.Channel != want || want == "error" && got.Host != UnknownUser {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

// Aliases that name each other many times are expanded once each.
func TestExpansionIsLinear(t *testing.T) {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "a%d: a%d, a%d, x%d@a.example\n", i, i+1, i+2, i)
	}
	b.WriteString("a60: y@a.example\na61: z@a.example\n")
	aliases, errs := parseAliases(t, "aliases", b.String())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	table := newTable(t)
	table.Aliases = aliases
	if n := len(route(table, "a0", "")); n != 62 {
		t.Errorf("%d targets", n)
	}
}

// However many addresses of an alias a message has, the alias is expanded once.
func TestDetailsDoNotMultiplyLists(t *testing.T) {
	table := newTable(t)
	e := table.NewExpansion(1000)
	for _, address := range []string{"staff", "two"} {
		if first := e.Route(address, ""); len(first) < 2 {
			t.Errorf("%s: %v", address, first)
		}
		for i := range 10 {
			if more := e.Route(fmt.Sprintf("%s+%d", address, i), ""); len(more) != 0 {
				t.Errorf("%s: again %v", address, more)
			}
		}
	}
	// A user's mailbox is another address with each detail.
	if got := append(e.Route("ann+1", ""), e.Route("ann+2", "")...); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	// An address that is also a member is routed; the caller drops the second copy.
	if got := e.Route("carol@b.example", ""); len(got) != 1 || e.Exceeded() {
		t.Errorf("%+v", got)
	}
}

func TestTargetsAreLimited(t *testing.T) {
	e := newTable(t).NewExpansion(4)
	if got := e.Route("two", ""); len(got) != 4 || e.Exceeded() {
		t.Errorf("%+v", got)
	}
	if got := e.Route("x@a.example", ""); len(got) != 0 || !e.Exceeded() {
		t.Errorf("above the limit: %+v", got)
	}
}

func TestFaultIsFoundWithoutExpansion(t *testing.T) {
	table := newTable(t)
	table.HasUser = func(name string) bool { return name == "ann" }
	for address, want := range map[string]string{
		"ann": "", "ann+x": "", "staff": "", "staff+1": "", "sales@shop.example": "", "postmaster": "", "x@a.example": "",
		"zed": UnknownUser, "x@elsewhere.org": NoRoute, "|/bin/sh": BadAddress,
	} {
		if got := table.Fault(address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

func TestErrorsOfTablesHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"a\n":              "r:1: the channel is missing",
		"\n*.{a smtp":      `r:2: "{" is not closed in the pattern "*.{a"`,
		"a SMTP":           `r:1: channel "SMTP" does not consist of lower-case letters and digits`,
		"a smtp (b)":       `r:1: host "(b)" has a '('`,
		"a smtp b c # d":   `r:1: unexpected "c" after the host`,
		"# only a comment": "r:1: the table has no route, so all mail would fail",
		"":                 "r:1: the table has no route, so all mail would fail",
	} {
		_, errs := ParseRoutes("r", text)
		if got := fmt.Sprint(errors.Join(errs...)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
	for text, want := range map[string]string{
		" folded\n":      "a:1: a folded line without an alias before it",
		"none\n":         "a:1: no colon after the name",
		"x: y\nX: z":     `a:2: alias "x" is also in line 1`,
		"x: a b, c":      `a:1: "a b" is not a mail address`,
		"x: a,\n \"b, c": "a:2: the quotes do not close",
		"\"x: y":         "a:1: the name's quotes do not close",
		": y":            `a:1: "" is not a name`,
	} {
		if _, errs := parseAliases(t, "a", text); fmt.Sprint(errors.Join(errs...)) != want {
			t.Errorf("%q: %v", text, errs)
		}
	}
}

// write writes a file below a new directory.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// rootDir makes a directory whose path only root can change, and one in it that
// belongs to user 1000.
func rootDir(t *testing.T) (dir, users string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to other users")
	}
	dir, err := os.MkdirTemp("/var/lib", "router-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	users = filepath.Join(dir, "users")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(users, 0o755), os.Chown(users, 1000, -1)); err != nil {
		t.Fatal(err)
	}
	return dir, users
}

// Programs in a table run with the privilege of its owner, so no other user may be able to
// change the table or what it includes.
func TestTablesBelongToOneUser(t *testing.T) {
	dir, _ := rootDir(t)
	list := filepath.Join(dir, "list")
	path := filepath.Join(dir, "aliases")
	for _, c := range []struct {
		what            string
		tableUID, uid   int
		tableMode, mode os.FileMode
		list, want      string
	}{
		{"root's list", 0, 0, 0o644, 0o600, "|/bin/x", ""},
		{"another user's list", 0, 1000, 0o644, 0o644, "a@b", "list belongs to user 1000; only root and the owner of the table, user 0, may"},
		{"the table owner's list", 1000, 1000, 0o644, 0o644, "|/bin/x", ""},
		{"root's list in a user's table", 1000, 0, 0o644, 0o644, "a@b", "does not belong to user 1000, the owner of the table"},
		{"a list that others can write", 0, 0, 0o644, 0o666, "a@b", "can write or replace " + list},
		{"a table that its group can write", 0, 0, 0o664, 0o644, "a@b", "can write or replace " + path},
	} {
		write(t, list, c.list, c.mode)
		write(t, path, "x: :include:"+list+"\n", c.tableMode)
		if err := errors.Join(os.Chown(list, c.uid, -1), os.Chown(path, c.tableUID, -1), os.Chown(dir, c.tableUID, -1)); err != nil {
			t.Fatal(err)
		}
		a, errs := ReadAliases(path)
		if got := fmt.Sprint(errors.Join(errs...)); c.want == "" && len(errs) > 0 || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.what, got)
		}
		if c.what == "the table owner's list" && route(&Table{Routes: DefaultRoutes("d"), Aliases: a, Domain: "d"}, "x", "")[0].UID != 1000 {
			t.Errorf("%s: uid %d", c.what, a.uid)
		}
	}
}

// A user must not get a privilege, or the text of another user's file, through a list
// whose path the user can change.
func TestNobodyElseChoosesWhatIsIncluded(t *testing.T) {
	dir, users := rootDir(t)
	at := func(name string) string { return filepath.Join(users, name) }
	secret := write(t, filepath.Join(dir, "secret"), "root:secret\n", 0o600)
	public := write(t, filepath.Join(dir, "public"), "|/bin/x\n", 0o644)
	if err := errors.Join(os.Symlink(secret, at("link")), os.Symlink(dir, at("dir")), os.Symlink(at("dir"), filepath.Join(dir, "rootlink")),
		os.Link(secret, at("hard")), os.Symlink("public", filepath.Join(dir, "good")), os.Symlink("../up/good", filepath.Join(dir, "again")),
		os.Symlink(dir, filepath.Join(dir, "up")), os.Symlink("loop", filepath.Join(dir, "loop")), syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	sticky := filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(sticky, 0o755), os.Chmod(sticky, 0o777|os.ModeSticky), os.Symlink(public, filepath.Join(sticky, "link")),
		os.Link(public, filepath.Join(sticky, "program")), os.Mkdir(filepath.Join(sticky, "own"), 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(sticky, "own", "list"), "a@b\n", 0o644)
	write(t, filepath.Join(dir, "empty"), "", 0o644)
	write(t, filepath.Join(dir, "syntax"), "a@b\nc d\n", 0o644)
	write(t, filepath.Join(dir, "long"), strings.Repeat("a@b\n", maxListMembers+1), 0o644)
	write(t, filepath.Join(dir, "itself"), ":include:"+filepath.Join(dir, "itself"), 0o644)
	for list, want := range map[string]string{
		public:                              "",
		filepath.Join(dir, "good"):          "",
		filepath.Join(dir, "up/up/good"):    "",
		filepath.Join(sticky, "own/list"):   "",
		at("link"):                          "users belongs to user 1000",
		at("dir/public"):                    "users belongs to user 1000",
		at("hard"):                          "users belongs to user 1000",
		filepath.Join(dir, "rootlink/list"): "users belongs to user 1000",
		filepath.Join(sticky, "link"):       "replace " + filepath.Join(sticky, "link"),
		filepath.Join(sticky, "program"):    "replace " + filepath.Join(sticky, "program"),
		filepath.Join(dir, "again"):         "no such file",
		filepath.Join(dir, "loop"):          "too many levels",
		filepath.Join(dir, "fifo"):          "not a regular file",
		filepath.Join(dir, "missing"):       "no such file",
		filepath.Join(dir, "syntax"):        "syntax:2: \"c d\" is not a mail address",
		filepath.Join(dir, "empty"):         "has no members",
		filepath.Join(dir, "long"):          "more than 100000 members",
		filepath.Join(dir, "itself"):        "it includes itself",
		"list":                              "not absolute",
	} {
		path := write(t, filepath.Join(dir, "aliases"), "x: :include:"+list+"\n", 0o644)
		_, errs := ReadAliases(path)
		got := fmt.Sprint(errors.Join(errs...))
		if want == "" && len(errs) > 0 || !strings.Contains(got, want) || strings.Contains(got, "secret") && !strings.Contains(list, "secret") {
			t.Errorf("%s: %s", list, got)
		}
	}
}

func FuzzRoutes(f *testing.F) {
	f.Add(routesText, "x@a.example")
	f.Fuzz(func(t *testing.T, text, address string) {
		r, errs := ParseRoutes("r", text)
		for _, err := range errs {
			var where *Error
			if !errors.As(err, &where) || where.Line < 1 {
				t.Errorf("%v", err)
			}
		}
		local, domain, _ := strings.Cut(address, "@")
		if route, ok := r.Find(local, domain); ok && route.Channel == "" {
			t.Errorf("%+v", route)
		}
	})
}

func FuzzAliases(f *testing.F) {
	f.Add(aliasesText, "two@mx.example", "NOTIFY=SUCCESS")
	f.Add("x: \"|a\\\"\", \\b, :include:c", "x", "")
	f.Fuzz(func(t *testing.T, text, address, dsn string) {
		if strings.Contains(text, ":include:") && strings.Contains(text, "/") {
			t.Skip("it may name any file of this machine")
		}
		aliases, errs := parseAliases(t, "a", text)
		for _, err := range errs {
			var where *Error
			if !errors.As(err, &where) || where.Line < 1 {
				t.Errorf("%v", err)
			}
		}
		table := &Table{Routes: DefaultRoutes("mx.example"), Aliases: aliases, Domain: "mx.example"}
		targets := route(table, address, dsn)
		outside := !strings.Contains(text, "|") && !strings.Contains(text, "/")
		for _, target := range targets {
			if target.Channel == "" || target.User == "" || strings.ContainsAny(target.User, "\n\x00") {
				t.Errorf("%+v", target)
			}
			if outside && target.UID != nobody || target.Channel == Local && target.UID == nobody && strings.ContainsAny(target.User[:1], "|/:") {
				t.Errorf("a privilege from outside: %+v", target)
			}
		}
	})
}
