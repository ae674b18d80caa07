package table

import (
	"slices"
	"strings"
)

// The check of the tables: loops of aliases.

// Check returns an error for each loop of aliases, with the position of an alias in
// the loop.
func (t *Table) Check() []error {
	c := checker{t, map[string]uint8{}, nil}
	names := make([]string, 0, len(t.Aliases.names))
	for name := range t.Aliases.names {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c.visit(t.Aliases.names[name], nil)
	}
	return c.errs
}

type checker struct {
	*Table
	state map[string]uint8 // 1: its loop is reported, 2: done
	errs  []error
}

func (c *checker) visit(a *alias, chain []string) {
	if c.state[a.name] == 2 {
		return
	}
	if i := slices.Index(chain, a.name); i >= 0 {
		if c.state[a.name] != 1 {
			c.errs = append(c.errs, &Error{c.Aliases.file(), a.line, 1,
				"aliases name each other: " + strings.Join(append(chain[i:], a.name), " -> ")})
		}
		c.state[a.name] = 1
		return
	}
	chain = append(slices.Clone(chain), a.name)
	for i := range a.members {
		m := &a.members[i]
		if next := c.next(m); next != nil && next.name != a.name {
			c.visit(next, chain)
		}
	}
	c.state[a.name] = 2
}

// next returns the alias that a member names, or nil.
func (c *checker) next(m *Member) *alias {
	if m.kind != address {
		return nil
	}
	local, domain, ok := c.Split(m.text)
	if !ok {
		return nil
	}
	if a := c.Aliases.names[strings.ToLower(local+"@"+domain)]; a != nil {
		return a
	}
	if !c.IsLocal(local, domain) {
		return nil
	}
	base, _, _ := strings.Cut(strings.ToLower(local), "+")
	if a := c.Aliases.names[strings.ToLower(local)]; a != nil {
		return a
	}
	return c.Aliases.names[base]
}

func (a *Aliases) file() string {
	if a.path == "" {
		return "aliases"
	}
	return a.path
}
