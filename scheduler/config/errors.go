package config

// Errors and warnings: what is wrong with a file, and where.

import (
	"cmp"
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

func (e Error) String() string { return e.Error() }

// Warning is something in a file that is accepted, but probably a mistake.
type Warning = Error

// Errors are all mistakes in a file, in the order of the file.
type Errors []Error

func (all Errors) Error() string {
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find a single Error.
func (all Errors) Unwrap() []error {
	out := make([]error, len(all))
	for i, e := range all {
		out[i] = e
	}
	return out
}

// sortByPlace puts errors or warnings in the order of the file.
func sortByPlace(all []Error) {
	slices.SortStableFunc(all, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
