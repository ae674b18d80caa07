// Package zsched holds no code, only the tests that look at the whole tree.
package zsched

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "zsched/"

// A room is what one package may import: other rooms, and modules of others.
// The standard library is free to all but the core.
type room struct {
	ours   []string
	theirs []string
}

const (
	participle = "github.com/alecthomas/participle/v2"
	fsnotify   = "github.com/fsnotify/fsnotify"
	zerolog    = "github.com/rs/zerolog"
	pflag      = "github.com/spf13/pflag"
	xsys       = "golang.org/x/sys"
	xidna      = "golang.org/x/net/idna"
	gosmtp     = "github.com/emersion/go-smtp"
	gosasl     = "github.com/emersion/go-sasl"
	gomessage  = "github.com/emersion/go-message"
	dns        = "github.com/miekg/dns"
	prometheus = "github.com/prometheus/client_golang"
	tcell      = "github.com/gdamore/tcell/v2"
	systemd    = "github.com/coreos/go-systemd"
)

// rooms names every package of the tree. Where no name fits exactly, that of
// the longest folder above it holds: "ta/*" stands for the bundled agents.
var rooms = map[string]room{
	"internal/asyncsyslog": {},
	"internal/eintr":       {},
	"internal/interval":    {},
	"internal/pattern":     {},
	"internal/postoffice":  {ours: []string{"internal/eintr"}, theirs: []string{xsys}},
	"internal/process":     {theirs: []string{xsys}},
	"internal/syncdir":     {ours: []string{"internal/eintr"}, theirs: []string{xsys}},
	"internal/version":     {},
	"internal/zenv":        {},
	"ctlfile":              {ours: []string{"internal/eintr", "internal/postoffice", "internal/syncdir"}, theirs: []string{xsys}},
	"ta":                   {ours: []string{"ctlfile", "internal/eintr", "internal/asyncsyslog"}},
	"ta/child":             {ours: []string{"ta", "internal/eintr"}, theirs: []string{xsys}},
	"ta/mime":              {},
	"ta/*":                 {ours: []string{"ctlfile", "ta", "ta/mime", "internal/interval", "internal/eintr", "internal/syncdir", "internal/process"}, theirs: []string{dns, gosmtp, gosasl, gomessage, xsys, xidna}},
	"ta/errormail":         {ours: []string{"ctlfile", "ta", "scheduler/report"}, theirs: []string{gomessage}},
	"mailq":                {ours: []string{"ctlfile", "internal/interval", "internal/pattern"}},
	"mailq/server":         {ours: []string{"ctlfile", "mailq", "internal/process"}},
	"mailq/client":         {ours: []string{"ctlfile", "mailq", "internal/process"}},
	"scheduler":            {ours: []string{"ctlfile", "ta", "internal/pattern"}},
	"scheduler/config":     {ours: []string{"scheduler", "internal/interval", "internal/zenv"}, theirs: []string{participle}},
	"scheduler/spool":      {ours: []string{"ctlfile", "internal/pattern", "internal/postoffice", "internal/eintr", "internal/syncdir", "internal/process"}, theirs: []string{fsnotify, xsys}},
	"scheduler/report":     {ours: []string{"ctlfile"}, theirs: []string{gomessage}},
	"scheduler/simulate":   {ours: []string{"scheduler"}},
	"scheduler/daemon": {
		ours:   []string{"ctlfile", "ta", "ta/child", "mailq", "mailq/server", "scheduler", "scheduler/spool", "scheduler/report"},
		theirs: []string{zerolog, prometheus, systemd},
	},
	"packaging/*":   {ours: []string{"ta/smtp/smtptest"}}, // what the demonstration needs
	"cmd/mailq/top": {ours: []string{"mailq", "mailq/client", "internal/pattern"}, theirs: []string{tcell}},
	"cmd/*":         {ours: []string{"*"}, theirs: []string{zerolog, pflag, gosmtp, gosasl, gomessage, dns, xsys, systemd}},
}

func roomOf(dir string) (room, bool) {
	if r, ok := rooms[dir]; ok {
		return r, true
	}
	for up := path.Dir(dir); up != "."; up = path.Dir(up) {
		if r, ok := rooms[up+"/*"]; ok {
			return r, true
		}
	}
	return room{}, false
}

// sources calls look with every Go file of the tree that is not a test.
func sources(t *testing.T, look func(file string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		look(filepath.ToSlash(file), set, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoomsImportOnlyWhatTheyMay walks the tree and fails on every arrow
// between packages that is not in the table above.
func TestRoomsImportOnlyWhatTheyMay(t *testing.T) {
	sources(t, func(file string, set *token.FileSet, f *ast.File) {
		r, ok := roomOf(path.Dir(file))
		if !ok {
			t.Errorf("%s: no room of this name", file)
			return
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if !r.may(name) {
				t.Errorf("%s: may not import %q", set.Position(spec.Pos()), name)
			}
		}
	})
}

func (r room) may(name string) bool {
	if ours, ok := strings.CutPrefix(name, module); ok {
		return slices.Contains(r.ours, "*") || slices.Contains(r.ours, ours)
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return true
	}
	return slices.ContainsFunc(r.theirs, func(m string) bool {
		return name == m || strings.HasPrefix(name, m+"/")
	})
}

// TestRoomOfTheCoreIsPure: told the time and what happened, the core touches
// nothing else. It has no goroutine, channel, lock, file or clock.
func TestRoomOfTheCoreIsPure(t *testing.T) {
	banned := []string{"bufio", "context", "io", "io/fs", "log", "log/slog", "math/rand", "net", "os", "runtime", "sync", "syscall", "unsafe"}
	clocks := []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
	sources(t, func(file string, set *token.FileSet, f *ast.File) {
		if dir := path.Dir(file); dir != "scheduler" && dir != "internal/pattern" {
			return
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if slices.ContainsFunc(banned, func(b string) bool { return name == b || strings.HasPrefix(name, b+"/") }) &&
				name != "math/rand/v2" {
				t.Errorf("%s: the core imports %q", set.Position(spec.Pos()), name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: concurrency in the core", set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s: time.%s in the core", set.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	})
}
