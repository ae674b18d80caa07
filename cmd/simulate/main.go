// Simulate runs the scheduler's core against models of agents and servers, in
// virtual time, and prints our figures next to the published ones.
//
//	simulate [--seed N] [--doc DIRECTORY] [SCENE...]
//
// With --doc it also writes the plots as SVG files, and a page of all figures.
// It is a tool for those who work on the scheduler and is not installed.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"zsched/scheduler/simulate"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// pageHeading begins the page that --doc writes.
const pageHeading = `# Simulations

The scheduler's core runs against models of agents and servers, in virtual time. The figures are
compared with published ones. ` + "`make simulate`" + ` prints them and rewrites this page and its plots.

`

// run returns the exit code of the program: 1 if a figure is outside its bound,
// or a file could not be written.
func run(args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	seed := flags.Uint64("seed", 1, "`number` that all random numbers come from")
	doc := flags.String("doc", "", "`directory` for the plots and, if no scene is named, for README.md")
	usage := func() string {
		return "usage: simulate [OPTION...] [SCENE...]\n\n" + flags.FlagUsages() + "\nscenes: " + strings.Join(names(), " ") + "\n"
	}
	err := flags.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		fmt.Fprint(stdout, usage())
		return 0
	}
	scenes, unknown := selected(flags.Args())
	if err == nil && unknown != "" {
		err = fmt.Errorf("unknown scene %q", unknown)
	}
	if err != nil {
		fmt.Fprintf(stderr, "simulate: %v\n%s", err, usage())
		return 2
	}
	held, err := runAll(scenes, *seed, *doc, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "simulate: %v\n", err)
		return 1
	}
	if !held {
		fmt.Fprintln(stderr, "simulate: a figure is outside its bound")
		return 1
	}
	return 0
}

// runAll runs the scenes and reports whether all figures are within their
// bounds. If doc is not empty, the plots are written there, and the page if all
// scenes have run.
func runAll(scenes []simulate.Scene, seed uint64, doc string, stdout io.Writer) (held bool, err error) {
	page := bytes.NewBufferString(pageHeading)
	held = true
	for _, scene := range scenes {
		result := scene.Run(seed)
		if err := scene.Print(stdout, result, false); err != nil {
			return false, fmt.Errorf("printing scene %s: %w", scene.Name, err)
		}
		held = held && !slices.ContainsFunc(result.Figures, func(f simulate.Figure) bool { return !f.Holds })
		if doc == "" {
			continue
		}
		if err := scene.Print(page, result, true); err != nil {
			return false, fmt.Errorf("printing scene %s: %w", scene.Name, err)
		}
		for _, p := range result.Plots {
			if err := os.WriteFile(filepath.Join(doc, p.Name+".svg"), p.SVG(), 0o666); err != nil {
				return false, fmt.Errorf("writing a plot: %w", err)
			}
		}
	}
	if doc == "" || len(scenes) < len(simulate.Scenes()) {
		return held, nil
	}
	if err := os.WriteFile(filepath.Join(doc, "README.md"), page.Bytes(), 0o666); err != nil {
		return false, fmt.Errorf("writing the page: %w", err)
	}
	return held, nil
}

// selected returns the scenes with these names, or all if there are none, and
// the first name that is unknown.
func selected(names []string) (scenes []simulate.Scene, unknown string) {
	all := simulate.Scenes()
	if len(names) == 0 {
		return all, ""
	}
	for _, name := range names {
		i := slices.IndexFunc(all, func(s simulate.Scene) bool { return s.Name == name })
		if i < 0 {
			return nil, name
		}
		scenes = append(scenes, all[i])
	}
	return scenes, ""
}

func names() []string {
	var names []string
	for _, s := range simulate.Scenes() {
		names = append(names, s.Name)
	}
	return names
}
