// Package programs gives tests the programs of this tree.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// builtIn is the environment variable with the directory in which all programs are built, and
// the agents in its ta/. "make test" sets it. Without it they are built.
const builtIn = "ZSCHED_BIN"

// Put puts programs into a directory, which it makes. Their names are the paths of their
// packages below cmd/, as "scheduler" or "ta/smtp".
func Put(dir string, names ...string) error {
	args, from := []string{"go", "build", "-o", dir + "/"}, "zsched/cmd"
	if built := os.Getenv(builtIn); built != "" {
		args, from = []string{"cp", "-t", dir}, built
	}
	for _, name := range names {
		args = append(args, filepath.Join(from, name))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%q: %w\n%s", args, err, out)
	}
	return nil
}
