// Package zsched contains no code, only the tests of the tree as a whole: which
// package may import which, and what a program may link.
package zsched

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists every package of the tree and what it may import: our own
// packages by their folder, other modules by the names in modules. Every
// package but the core may use the standard library.
const allowed = `
internal/certificate:     internal/testing/certificatetest
internal/command:         internal/version pflag
internal/header:
internal/listen:          zerolog
internal/logindex:
internal/logs:
internal/metrics:         internal/listen internal/text internal/version prometheus
internal/pattern:
internal/postoffice:      x/sys
internal/process:         internal/postoffice x/sys
internal/redisurl:
internal/text:           x/sys
internal/units:
internal/version:
internal/zenv:            internal/units

internal/testing/certificatetest:
internal/testing/injector:          x/sys
internal/testing/ledger:
internal/testing/memdisk:           x/sys
internal/testing/metricstest:
internal/testing/peertest:          x/sys
internal/testing/player:             ta
internal/testing/programs:
internal/testing/promise:           scheduler/view

ctlfile:                  internal/text internal/postoffice x/sys
queue:                    ctlfile internal/postoffice x/sys
router:                   ctlfile queue router/table internal/header internal/logs internal/postoffice internal/process internal/text internal/zenv fsnotify zerolog x/sys
router/table:             ctlfile queue internal/pattern x/sys

ta:                       ctlfile internal/logs internal/postoffice x/sys
ta/errormail:             ctlfile queue ta scheduler/report
ta/hold:                  ctlfile queue ta internal/units internal/postoffice
ta/mailbox:               ctlfile ta internal/postoffice internal/header x/sys
ta/sm:                    ctlfile ta internal/header x/sys
ta/smtp:                  ctlfile ta internal/text dns go-sasl go-smtp x/idna
ta/xfer:                  ctlfile ta xfer
ta/smtp/smtptest:         go-smtp go-sasl

xfer:                     internal/process
xfer/receiver:            ctlfile queue xfer internal/postoffice x/sys

smtpserver:               ctlfile queue internal/listen internal/header internal/postoffice internal/process internal/logs go-sasl x/bcrypt x/sys zerolog

mailq:                    ctlfile internal/units internal/text internal/pattern scheduler/view
mailq/server:             mailq scheduler/view internal/text internal/units internal/process internal/logs
mailq/trace:              ctlfile mailq internal/logindex internal/text
mailq/report:             mailq scheduler/view internal/text internal/units
mailq/client:             ctlfile mailq internal/text internal/units internal/process

scheduler/limit:          scheduler/store
scheduler/view:           internal/units
scheduler/store:
scheduler/rule:           ta internal/pattern internal/text scheduler/limit
scheduler/fair:           scheduler/rule scheduler/store
scheduler:                ctlfile ta internal/text scheduler/fair scheduler/limit scheduler/store scheduler/rule scheduler/view
scheduler/config:         ctlfile scheduler/limit scheduler/rule ta internal/units internal/pattern internal/redisurl internal/zenv participle
scheduler/owner:          internal/postoffice internal/process x/sys
scheduler/spool:          ctlfile queue scheduler scheduler/owner scheduler/view internal/postoffice internal/process x/sys
scheduler/report:         ctlfile queue internal/text internal/units internal/postoffice go-message
scheduler/simulate:       ctlfile ta scheduler scheduler/limit scheduler/rule
scheduler/cluster:        mailq scheduler scheduler/store internal/process internal/redisurl go-redis
scheduler/state:          scheduler scheduler/view internal/postoffice internal/text x/sys
scheduler/agent:          ta internal/postoffice x/sys
scheduler/daemon:         ctlfile ta scheduler/agent scheduler scheduler/rule scheduler/view scheduler/spool scheduler/state scheduler/report internal/text internal/logs zerolog systemd
scheduler/daemon/daemontest: ctlfile ta scheduler/agent scheduler scheduler/rule scheduler/view scheduler/daemon scheduler/spool zerolog
scheduler/admin:          ctlfile mailq mailq/server scheduler scheduler/rule scheduler/view scheduler/daemon scheduler/spool internal/text internal/postoffice internal/process internal/logs zerolog
scheduler/eventlog:       ctlfile ta mailq scheduler scheduler/daemon scheduler/spool scheduler/store internal/logindex internal/logs internal/text internal/postoffice zerolog
scheduler/metrics:        ctlfile ta mailq scheduler scheduler/agent scheduler/view scheduler/daemon scheduler/spool internal/metrics internal/version prometheus zerolog

cmd/scheduler:            ctlfile queue router/table mailq mailq/client mailq/server scheduler scheduler/rule scheduler/admin scheduler/agent internal/certificate internal/command internal/testing/certificatetest scheduler/cluster scheduler/config scheduler/daemon scheduler/eventlog scheduler/metrics scheduler/owner scheduler/report scheduler/spool scheduler/state internal/text internal/listen internal/logs internal/postoffice internal/process internal/version internal/zenv xfer pflag systemd x/sys zerolog
cmd/mailq:                ctlfile mailq mailq/client mailq/report mailq/trace scheduler/config scheduler/view internal/command internal/text internal/units internal/version internal/zenv cobra pflag x/sys
cmd/ctlfile:              ctlfile queue internal/command internal/header internal/text pflag
cmd/xferd:                queue scheduler/config internal/command internal/text internal/listen internal/process internal/logs internal/version internal/zenv xfer xfer/receiver pflag systemd zerolog
cmd/simulate:             scheduler/simulate pflag
cmd/smtpserver:           internal/certificate router/table queue smtpserver internal/command internal/metrics internal/units internal/text internal/listen internal/postoffice internal/process internal/version internal/zenv pflag systemd x/sys zerolog
cmd/router:               router router/table internal/command internal/header internal/listen internal/metrics internal/process internal/text internal/version internal/zenv zerolog pflag
cmd/sendmail:             ctlfile queue smtpserver internal/text internal/header internal/postoffice internal/version internal/zenv pflag x/sys zerolog
cmd/ta/internal/program:  ctlfile ta internal/command internal/version internal/zenv pflag
cmd/ta/discard:           cmd/ta/internal/program ta
cmd/ta/errormail:         cmd/ta/internal/program ta ta/errormail internal/zenv
cmd/ta/hold:              cmd/ta/internal/program ta ta/hold internal/zenv
cmd/ta/mailbox:           cmd/ta/internal/program ta ta/mailbox internal/units internal/zenv
cmd/ta/sm:                cmd/ta/internal/program ta ta/sm internal/units internal/zenv
cmd/ta/xfer:              cmd/ta/internal/program ctlfile ta/xfer xfer
cmd/ta/smtp:              cmd/ta/internal/program ta ta/smtp internal/postoffice internal/units internal/zenv pflag

packaging/attack:         queue x/sys
packaging/crashtest:
packaging/ministore:      miniredis
packaging/peer:           ta/smtp/smtptest
`

// modules names the other modules, or parts of them, as allowed does.
var modules = map[string]string{
	"cobra":      "github.com/spf13/cobra",
	"dns":        "github.com/miekg/dns",
	"fsnotify":   "github.com/fsnotify/fsnotify",
	"go-message": "github.com/emersion/go-message",
	"go-redis":   "github.com/redis/go-redis",
	"go-sasl":    "github.com/emersion/go-sasl",
	"go-smtp":    "github.com/emersion/go-smtp",
	"miniredis":  "github.com/alicebob/miniredis",
	"participle": "github.com/alecthomas/participle",
	"pflag":      "github.com/spf13/pflag",
	"prometheus": "github.com/prometheus/client_golang",
	"systemd":    "github.com/coreos/go-systemd",
	"x/bcrypt":   "golang.org/x/crypto/bcrypt",
	"x/idna":     "golang.org/x/net/idna",
	"x/sys":      "golang.org/x/sys",
	"zerolog":    "github.com/rs/zerolog",
}

const module = "zsched/"

// parseAllowed returns the import paths that each folder may import, besides
// the standard library.
func parseAllowed(t *testing.T) map[string][]string {
	t.Helper()
	rules := make(map[string][]string)
	for line := range strings.Lines(allowed) {
		folder, imports, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		rules[folder] = []string{}
		for name := range strings.FieldsSeq(imports) {
			if other, ok := modules[name]; ok {
				rules[folder] = append(rules[folder], other)
			} else {
				rules[folder] = append(rules[folder], module+name)
			}
		}
	}
	for folder, imports := range rules {
		for _, name := range imports {
			if ours, ok := strings.CutPrefix(name, module); ok && rules[ours] == nil {
				t.Errorf("the entry of %s names %s, which has no entry", folder, ours)
			}
		}
	}
	return rules
}

func inStandardLibrary(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".") && !strings.HasPrefix(name, module)
}

// isPart reports whether a package belongs to a module or is one of our own
// packages itself. The packages below ours have entries of their own.
func isPart(name, of string) bool {
	return name == of || !strings.HasPrefix(of, module) && strings.HasPrefix(name, of+"/")
}

// TestImportsAreAllowed fails on every import that is not in the table above.
func TestImportsAreAllowed(t *testing.T) {
	rules := parseAllowed(t)
	eachFile(t, func(file string, set *token.FileSet, f *ast.File) {
		imports, ok := rules[path.Dir(file)]
		if !ok {
			t.Errorf("%s: package %s is not in the table", file, path.Dir(file))
			return
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if !inStandardLibrary(name) && !slices.ContainsFunc(imports, func(of string) bool { return isPart(name, of) }) {
				t.Errorf("%s: package %s may not import %q", set.Position(spec.Pos()), path.Dir(file), name)
			}
		}
	})
}

// TestLinkedPackagesAreNotImportedByAccident looks at what whole programs link.
// An agent is started for every few messages and must start quickly; the
// scheduler runs as root and should hold no more code than it needs.
func TestLinkedPackagesAreNotImportedByAccident(t *testing.T) {
	for _, program := range []struct {
		folders string
		without []string
	}{
		{"./cmd/ta/...", []string{module + "scheduler", module + "scheduler/config", modules["participle"], modules["prometheus"]}},
		{"./cmd/scheduler", []string{"github.com/charmbracelet", module + "mailq/client"}},
		{"./cmd/mailq", []string{modules["prometheus"], module + "scheduler/daemon", module + "mailq/server"}},
		{"./cmd/sendmail", []string{modules["prometheus"]}},
		{"./cmd/ctlfile", []string{module + "scheduler", modules["participle"]}},
		{"./cmd/router", []string{module + "scheduler", modules["participle"]}},
	} {
		out, err := exec.Command("go", "list", "-deps", program.folders).CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, out)
		}
		for name := range strings.FieldsSeq(string(out)) {
			if slices.ContainsFunc(program.without, func(of string) bool { return isPart(name, of) }) {
				t.Errorf("%s links %s", program.folders, name)
			}
		}
	}
}

// fileCalls change, open or examine files. Package postoffice makes them for the
// kernel's file system or for one in memory.
var fileCalls = map[string][]string{
	"os": {"Open", "OpenFile", "OpenRoot", "Create", "CreateTemp", "ReadFile", "WriteFile", "Chown", "Lchown", "Chmod",
		"Chtimes", "Lstat", "ReadDir", "Rename", "Remove", "RemoveAll", "Link", "Symlink", "Mkdir", "MkdirAll", "MkdirTemp", "Truncate"},
	"unix": {"Open", "Openat", "Openat2", "Creat", "Chown", "Lchown", "Fchown", "Fchownat", "Chmod", "Fchmod", "Fchmodat",
		"Rename", "Renameat", "Renameat2", "Unlink", "Unlinkat", "Link", "Linkat", "Symlink", "Symlinkat", "Mkdir",
		"Mkdirat", "Mkfifo", "Mkfifoat", "Truncate", "Ftruncate", "Fstat", "Fstatat", "Pread", "Pwrite", "Fsync", "Fdatasync", "Syncfs", "Getdents", "Statfs"},
	"syscall": {"Open", "Openat", "Creat", "Chown", "Lchown", "Fchown", "Fchownat", "Chmod", "Fchmod", "Fchmodat",
		"Rename", "Renameat", "Unlink", "Unlinkat", "Link", "Symlink", "Mkdir", "Mkdirat", "Mkfifo", "Truncate"},
}

// ownFileCalls are the calls in fileCalls that packages make themselves, with
// the reason.
var ownFileCalls = map[string]string{
	"scheduler/report/reporter.go os.Open":    "the form of notices, below MAILSHARE",
	"scheduler/spool/notify.go unix.Fchmod":   "a socket gets its mode before it has a name",
	"scheduler/owner/pidfile.go os.ReadFile":  "below /proc",
	"scheduler/spool/deadlock.go os.ReadFile": "below /proc",
	"smtpserver/passwords.go os.ReadFile":     "the file of passwords",
	"ta/program.go os.CreateTemp":             "a file without a name in the system's temporary directory",
	"ta/program.go os.Remove":                 "the same",
}

// TestOnlyPackagePostofficeTouchesThePostoffice: who may own a file below
// $POSTOFFICE, and how it is opened, is decided in one place.
func TestOnlyPackagePostofficeTouchesThePostoffice(t *testing.T) {
	packages := []string{"ctlfile", "scheduler/owner", "scheduler/spool", "scheduler/state", "scheduler/report", "ta", "ta/errormail", "ta/hold", "ta/xfer", "xfer/receiver",
		"smtpserver", "router", "cmd/sendmail"}
	used := map[string]bool{}
	eachFile(t, func(file string, set *token.FileSet, f *ast.File) {
		if !slices.Contains(packages, path.Dir(file)) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := call.X.(*ast.Ident)
			if !ok || !slices.Contains(fileCalls[x.Name], call.Sel.Name) {
				return true
			}
			name := x.Name + "." + call.Sel.Name
			if ownFileCalls[file+" "+name] == "" {
				t.Errorf("%s: %s: only package postoffice may do that below $POSTOFFICE", set.Position(n.Pos()), name)
			}
			used[file+" "+name] = true
			return true
		})
	})
	for name := range ownFileCalls {
		if !used[name] {
			t.Errorf("%s is an exception that nothing needs", name)
		}
	}
}

// pure are the packages that compute and do nothing else: the core, and what
// only computes for it.
var pure = []string{"scheduler", "internal/pattern"}

// TestCoreImportsNothingImpure: the core is told the time and what happened. It
// has no goroutine, channel, lock, file or clock.
func TestCoreImportsNothingImpure(t *testing.T) {
	banned := []string{"bufio", "context", "io", "log", "math/rand", "net", "os", "runtime", "sync", "syscall", "unsafe"}
	clocks := []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
	eachFile(t, func(file string, set *token.FileSet, f *ast.File) {
		folder := path.Dir(file)
		if !slices.Contains(pure, folder) {
			return
		}
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if slices.ContainsFunc(banned, func(b string) bool { return name == b || strings.HasPrefix(name, b+"/") }) &&
				name != "math/rand/v2" {
				t.Errorf("%s: %s imports %q", set.Position(spec.Pos()), folder, name)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: concurrency in %s", set.Position(n.Pos()), folder)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
					t.Errorf("%s: time.%s in %s", set.Position(n.Pos()), n.Sel.Name, folder)
				}
			}
			return true
		})
	})
}

// eachFile calls visit with every Go file of the tree that is not a test.
func eachFile(t *testing.T, visit func(file string, set *token.FileSet, f *ast.File)) {
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
		visit(filepath.ToSlash(file), set, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
