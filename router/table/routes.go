// Package table holds the router's tables: where the mail of each domain goes
// (routes(5)) and which addresses stand for others (aliases(5)).
//
//	# MAILSHARE/routes: pattern, channel, host; the first that matches applies
//	mx.example.org        local
//	boss@example.org      smtp    vip.example.org
//	*.partner.example     smtp    [192.0.2.25]
//	old.example.org       error   nosuchdomain
//	*                     smtp    relay.example.net
//
//	# MAILSHARE/aliases: a name and the addresses that it stands for
//	postmaster:      root
//	staff:           :include:/opt/mail/staff.list
//	owner-staff:     carol
//	sales@shop.example: dave, erin@other.example
//	archive:         "|/usr/local/bin/archive --all", /var/log/archive.mbox
//
// A Table is immutable. When a file changes, a new table replaces the old one. If the
// new text has errors, they are returned with their positions, and the old table stays
// in force.
package table

import (
	"fmt"
	"slices"
	"strings"

	"zsched/internal/pattern"
)

// Local is the channel of users on this machine. The local part of an address is looked
// up as an alias only in this channel.
const Local = "local"

// Error says what is wrong in a table, and where.
type Error struct {
	File         string
	Line, Column int // from 1; a column is a byte
	Reason       string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// Route says where the mail of the addresses that match a pattern goes.
type Route struct {
	Pattern string // for a domain or, with an "@", for a complete address
	Channel string
	Host    string // "" means the recipient's domain, or in the channel local the user
	Line    int
}

// Routes is the table of routes, in its order.
type Routes struct {
	list  []Route
	plain map[string]int // index of the first route whose pattern has no wildcard
	wild  []int          // indexes of the others
}

// DefaultRoutes returns the routes of a site without a table: mail for the domains and
// for localhost is local, and all other mail goes out by SMTP.
func DefaultRoutes(domains ...string) *Routes {
	r := &Routes{plain: map[string]int{}}
	for _, d := range append(domains, "localhost") {
		r.add(Route{Pattern: d, Channel: Local})
	}
	r.add(Route{Pattern: "*", Channel: "smtp"})
	return r
}

func (r *Routes) add(route Route) {
	i := len(r.list)
	r.list = append(r.list, route)
	key := strings.ToLower(route.Pattern)
	if strings.ContainsAny(key, `*?[{\`) {
		r.wild = append(r.wild, i)
	} else if _, again := r.plain[key]; !again {
		r.plain[key] = i
	}
}

// ParseRoutes reads a table of routes. It returns all errors of the text. A text without
// a route is an error, because all mail would fail: it is rather what a full disk has left
// of the file.
func ParseRoutes(file, text string) (*Routes, []error) {
	r := &Routes{plain: map[string]int{}}
	var errs []error
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := splitWords(line)
		if len(words) == 0 {
			continue
		}
		route := Route{Pattern: words[0].text, Line: number}
		column, reason := 0, ""
		switch {
		case len(words) < 2:
			column, reason = words[0].column+len(words[0].text), "the channel is missing"
		case len(words) > 3:
			column, reason = words[3].column, fmt.Sprintf("unexpected %.100q after the host", words[3].text)
		default:
			route.Channel = words[1].text
			if len(words) == 3 {
				route.Host = words[2].text
			}
			column, reason = checkRoute(route, words)
		}
		if reason != "" {
			errs = append(errs, &Error{file, number, column, reason})
			continue
		}
		r.add(route)
	}
	if len(r.list) == 0 && len(errs) == 0 {
		errs = []error{&Error{file, 1, 1, "the table has no route, so all mail would fail"}}
	}
	return r, errs
}

// MatchAll reports whether every address has a route.
func (r *Routes) MatchAll() bool {
	return slices.ContainsFunc(r.list, func(route Route) bool { return route.Pattern == "*" })
}

func checkRoute(route Route, words []word) (column int, reason string) {
	if bracket, found := pattern.Unclosed(route.Pattern); found {
		return words[0].column, fmt.Sprintf("%q is not closed in the pattern %.100q", bracket, route.Pattern)
	}
	for i := 0; i < len(route.Channel); i++ {
		c := route.Channel[i]
		if letter := 'a' <= c && c <= 'z'; !letter && (i == 0 || !('0' <= c && c <= '9' || strings.IndexByte("-_.", c) >= 0)) {
			return words[1].column + i, fmt.Sprintf("channel %.100q does not consist of lower-case letters and digits", route.Channel)
		}
	}
	if i := strings.IndexAny(route.Host, "()\"\\\x00"); i >= 0 {
		return words[2].column + i, fmt.Sprintf("host %.100q has a %q", route.Host, route.Host[i])
	}
	return 0, ""
}

// Find returns the first route that matches an address.
func (r *Routes) Find(local, domain string) (Route, bool) {
	whole := local + "@" + domain
	best := len(r.list)
	for _, key := range []string{strings.ToLower(domain), strings.ToLower(whole)} {
		if i, ok := r.plain[key]; ok {
			best = min(best, i)
		}
	}
	for _, i := range r.wild {
		if i > best {
			break
		}
		text := domain
		if strings.Contains(r.list[i].Pattern, "@") {
			text = whole
		}
		if pattern.Glob(r.list[i].Pattern, text) {
			best = i
			break
		}
	}
	if best == len(r.list) {
		return Route{}, false
	}
	return r.list[best], true
}

// All returns the routes in their order.
func (r *Routes) All() []Route { return r.list }

type word struct {
	text   string
	column int
}

// splitWords splits a line at its blanks. A word that begins with "#" starts a
// comment, which ends with the line.
func splitWords(line string) []word {
	var words []word
	for i := 0; i < len(line); {
		if isSpace(line[i]) {
			i++
			continue
		}
		if line[i] == '#' {
			break
		}
		end := i
		for end < len(line) && !isSpace(line[end]) {
			end++
		}
		words = append(words, word{line[i:end], i + 1})
		i = end
	}
	return words
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
