package config

import (
	"fmt"
	"slices"
	"strings"
)

// Place is where something stands; lines and columns count from 1.
type Place struct {
	File         string
	Line, Column int
}

func (p Place) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Error is one thing wrong with a file.
type Error struct {
	Place
	Text string
}

func (e Error) Error() string { return e.Place.String() + ": " + e.Text }

// Errors are all things wrong with a file, in its order.
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

// Warning is something in a file that works, but perhaps not as meant.
type Warning struct {
	Place
	Text string
}

func (w Warning) String() string { return w.Place.String() + ": " + w.Text }

func inFileOrder[T any](problems []T, place func(T) Place) {
	slices.SortStableFunc(problems, func(a, b T) int {
		p, q := place(a), place(b)
		if p.Line != q.Line {
			return p.Line - q.Line
		}
		return p.Column - q.Column
	})
}
