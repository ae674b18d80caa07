package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// functions returns the names of all functions and methods of a file.
func functions(t *testing.T, file string) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			names[fn.Name.Name] = true
		}
	}
	return names
}

// mostFiles is how many files a reader opens to follow a control file from transport/ to its
// removal.
const mostFiles = 15

// The list in the package comment names files and functions that exist.
func TestPathOfAControlFileIsThatOfThePackageComment(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "daemon.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^\t([\w/]+\.go) +([\w, ]+): `).FindAllStringSubmatch(f.Doc.Text(), -1)
	if len(lines) < 10 || len(lines) > mostFiles {
		t.Errorf("the list has %d files", len(lines))
	}
	for _, line := range lines {
		file := filepath.Join("../..", line[1])
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join("..", line[1])
		}
		known := functions(t, file)
		for name := range strings.SplitSeq(line[2], ", ") {
			if !known[name] {
				t.Errorf("%s has no %s", line[1], name)
			}
		}
	}
}
