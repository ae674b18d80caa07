package zsched

// The matrix of doc/reliability.md: each row names a fault, says what happens, and
// names tests that exist.

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const reliabilityPage = "doc/reliability.md"

// faultRow is one entry of the matrix.
type faultRow struct {
	section, fault, result string
	tests                  []string
}

// faultRows reads the rows of the page: a heading of the third level with the fault, what
// happens, and a list of tests. Rows stand below headings of the second level.
func faultRows(page string) (rows []faultRow, err error) {
	section := ""
	for n, line := range strings.Split(page, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		} else if fault, ok := strings.CutPrefix(line, "### "); ok {
			rows = append(rows, faultRow{section: section, fault: fault})
		} else if section == "" || line == "" {
			continue
		} else if len(rows) == 0 || rows[len(rows)-1].section != section {
			return nil, fmt.Errorf("line %d stands before the first row of its section", n+1)
		} else if test, ok := strings.CutPrefix(line, "* "); ok {
			row := &rows[len(rows)-1]
			row.tests = append(row.tests, strings.Trim(test, "`"))
		} else {
			rows[len(rows)-1].result += line + "\n"
		}
	}
	return rows, nil
}

var goTest = regexp.MustCompile(`^([a-z0-9/]+)\.((?:Test|Fuzz)[A-Z]\w*)$`)

// testExists says what is wrong with the name of a test.
func testExists(name string) error {
	if attack, ok := strings.CutPrefix(name, "packaging/attack: "); ok {
		source, err := os.ReadFile("packaging/attack/attacks.go")
		if err == nil && !bytes.Contains(source, fmt.Appendf(nil, "\t{%q, ", attack)) {
			err = fmt.Errorf("packaging/attack has no such attack")
		}
		return err
	}
	if ext := path.Ext(name); ext == ".txt" || ext == ".txtar" {
		if !strings.Contains(name, "/testdata/") {
			return fmt.Errorf("a script or scenario is below testdata")
		}
		_, err := os.Stat(name)
		return err
	}
	part := goTest.FindStringSubmatch(name)
	if part == nil {
		return fmt.Errorf("neither a test of a package nor a script, a scenario or an attack")
	}
	files, err := filepath.Glob(path.Join(part[1], "*_test.go"))
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if bytes.Contains(source, []byte("\nfunc "+part[2]+"(")) {
			return nil
		}
	}
	if err == nil {
		err = fmt.Errorf("package %s has no such test", part[1])
	}
	return err
}

func TestReliabilityNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile(reliabilityPage)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := faultRows(string(page))
	if err != nil {
		t.Fatalf("%s: %v", reliabilityPage, err)
	}
	if len(rows) < 60 {
		t.Errorf("%s has %d rows only", reliabilityPage, len(rows))
	}
	seen := map[string]bool{}
	for _, row := range rows {
		if seen[row.fault] {
			t.Errorf("%s: two rows are about %q", row.section, row.fault)
		}
		seen[row.fault] = true
		if row.result == "" || len(row.tests) == 0 {
			t.Errorf("%s: %q says %q and names %d tests", row.section, row.fault, row.result, len(row.tests))
		}
		for _, test := range row.tests {
			if err := testExists(test); err != nil {
				t.Errorf("%s: %q names %s: %v", row.section, row.fault, test, err)
			}
		}
	}
}

func TestNamesOfMissingTestsAreFound(t *testing.T) {
	for _, name := range []string{
		"scheduler.TestThatIsNotThere", "nowhere.TestSimulation", "scheduler/testdata/none.txt", "README.md",
		"imports_test.go", "packaging/attack: none", "scheduler.Simulation", "",
	} {
		if testExists(name) == nil {
			t.Errorf("%q is taken for a test", name)
		}
	}
	if _, err := faultRows("## Disk\n\ntext\n"); err == nil {
		t.Error("text without a fault is taken for a row")
	}
}
