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
	File   string
	Line   int // from 1
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
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
		words := strings.Fields(line)
		if i := slices.IndexFunc(words, func(w string) bool { return w[0] == '#' }); i >= 0 {
			words = words[:i] // a comment
		}
		if len(words) == 0 {
			continue
		}
		route := Route{Pattern: words[0], Line: number}
		reason := ""
		switch {
		case len(words) < 2:
			reason = "the channel is missing"
		case len(words) > 3:
			reason = fmt.Sprintf("unexpected %.100q after the host", words[3])
		default:
			route.Channel, route.Host = words[1], strings.Join(words[2:], "")
			reason = checkRoute(route)
		}
		if reason != "" {
			errs = append(errs, &Error{file, number, reason})
			continue
		}
		r.add(route)
	}
	if len(r.list) == 0 && len(errs) == 0 {
		errs = []error{&Error{file, 1, "the table has no route, so all mail would fail"}}
	}
	return r, errs
}

// Doubts returns what is probably a mistake in the table of a file: no pattern "*", or lines
// after it. A site may want the former, but a line may also have been lost.
func (r *Routes) Doubts(file string) (doubts []error) {
	all := slices.IndexFunc(r.list, func(route Route) bool { return route.Pattern == "*" })
	if all < 0 {
		return []error{fmt.Errorf("%s: no line has the pattern *, so mail to other domains fails", file)}
	}
	for _, route := range r.list[all+1:] {
		reason := fmt.Sprintf("%.100q is never reached: the pattern * on line %d matches everything", route.Pattern, r.list[all].Line)
		doubts = append(doubts, &Error{file, route.Line, reason})
	}
	return doubts
}

func checkRoute(route Route) (reason string) {
	if bracket, found := pattern.Unclosed(route.Pattern); found {
		return fmt.Sprintf("%q is not closed in the pattern %.100q", bracket, route.Pattern)
	}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	if strings.IndexByte(letters, route.Channel[0]) < 0 || strings.Trim(route.Channel, letters+"0123456789-_.") != "" {
		return fmt.Sprintf("channel %.100q does not consist of lower-case letters and digits", route.Channel)
	}
	if i := strings.IndexAny(route.Host, "()\"\\\x00"); i >= 0 {
		return fmt.Sprintf("host %.100q has a %q", route.Host, route.Host[i])
	}
	return ""
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
