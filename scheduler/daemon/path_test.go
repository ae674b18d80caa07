package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// functions returns the names of all functions and methods of a folder.
func functions(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", folder, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}

// The lists in the package comment name functions that exist.
func TestFunctionsOfThePackageCommentExist(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "daemon.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{
		"daemon": ".", "scheduler": "..", "spool": "../spool", "ta": "../../ta", "child": "../agent",
	}
	known := make(map[string]map[string]bool)
	for name, folder := range folders {
		known[name] = functions(t, folder)
	}
	mentioned := regexp.MustCompile(`\b(daemon|scheduler|spool|ta|child)\.(\w+)`)
	n := 0
	for line := range strings.Lines(f.Doc.Text()) {
		if !strings.Contains(line, " – ") {
			continue
		}
		for _, m := range mentioned.FindAllStringSubmatch(line, -1) {
			n++
			if !known[m[1]][m[2]] {
				t.Errorf("%s.%s does not exist: %s", m[1], m[2], strings.TrimSpace(line))
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d functions in the lists", n)
	}
}
