package zsched

// The matrix of man/reliability.7: each row names a fault, says what happens, and
// names tests that exist.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const reliabilityPage = "man/reliability.7"

// faultRow is one entry of the matrix.
type faultRow struct {
	section, fault, result string
	tests                  []string
}

// faultRows reads the rows of the page: a .TP, the fault in bold, what happens, and
// after a .IP a line in italics for each test. Rows begin with the first section
// that is not about the page itself.
func faultRows(page string) (rows []faultRow, err error) {
	section, inTests := "", false
	var row *faultRow
	plain := strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\&`, "")
	for n, line := range strings.Split(strings.TrimSuffix(page, "\n"), "\n") {
		macro, rest, _ := strings.Cut(line, " ")
		rest = plain.Replace(rest)
		switch {
		case macro == ".SH":
			section, row, inTests = rest, nil, false
		case section == "" || section == "NAME" || section == "DESCRIPTION" || section == "SEE ALSO":
		case macro == ".TP":
			rows = append(rows, faultRow{section: section})
			row, inTests = &rows[len(rows)-1], false
		case row == nil:
			return nil, fmt.Errorf("line %d stands before the first row of its section", n+1)
		case row.fault == "":
			if macro != ".B" || rest == "" {
				return nil, fmt.Errorf("line %d: the fault of a row is a line of .B", n+1)
			}
			row.fault = rest
		case macro == ".IP":
			inTests = true
		case inTests && macro == ".br":
		case inTests && macro == ".I":
			row.tests = append(row.tests, rest)
		case inTests:
			return nil, fmt.Errorf("line %d: a test is a line of .I", n+1)
		default:
			row.result += line + "\n"
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
	for _, page := range []string{
		".SH DISK\ntext\n", ".SH DISK\n.TP\ntext\n", ".SH DISK\n.TP\n.B fault\ntext\n.IP\ntest\n",
	} {
		if _, err := faultRows(page); err == nil {
			t.Errorf("%q is taken for a matrix", page)
		}
	}
}

// The page is correct for the program that shows it, where there is one.
func TestReliabilityIsAManualPage(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	out, err := exec.Command(groff, "-man", "-ww", "-Wbreak", "-z", "-Tutf8", reliabilityPage).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff says %q, %v", out, err)
	}
}
