package config

// Errors and warnings: what is wrong with a file, and where.

import (
	"fmt"
	"slices"
	"strings"
)

// Place is a position in a file. Lines and columns count from 1; 0 means that the line or
// the column is not known.
type Place struct {
	File         string
	Line, Column int
}

func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is one mistake in a file.
type Error struct {
	Place
	Text string
}

func (e Error) Error() string { return e.Place.String() + ": " + e.Text }

// Errors are all mistakes in a file, in the order of the file.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find a single Error.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i := range e {
		out[i] = e[i]
	}
	return out
}

// Warning is something in a file that is accepted, but probably a mistake.
type Warning struct {
	Place
	Text string
}

func (w Warning) String() string { return w.Place.String() + ": " + w.Text }

// sortByPlace puts errors or warnings in the order of the file.
func sortByPlace[T any](problems []T, place func(T) Place) {
	slices.SortStableFunc(problems, func(a, b T) int {
		p, q := place(a), place(b)
		if p.Line != q.Line {
			return p.Line - q.Line
		}
		return p.Column - q.Column
	})
}

func sortWarnings(w []Warning) { sortByPlace(w, func(w Warning) Place { return w.Place }) }
