package table

// Routing: where the copies for one recipient of a submission go.

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"zsched/ctlfile"
	"zsched/queue"
)

// Table holds both tables and everything else that decides where mail goes.
type Table struct {
	Routes  *Routes
	Aliases *Aliases
	Domain  string // added to names without a domain
	// HasUser reports whether there is a local user of that name. nil: the local
	// agent checks this when it delivers.
	HasUser func(name string) bool
}

// Forms, which are the hosts of the channel error: they name the reason for a failure
// (errormail(8)). The comments are their status codes (RFC 3463).
const (
	UnknownUser    = "nosuchuser"     // 5.1.1
	NoRoute        = "unresolvable"   // 5.1.2
	BadAddress     = "badaddress"     // 5.1.3
	Loop           = "aliasloop"      // 5.4.6
	TooLarge       = "toolarge"       // 5.3.4
	HopCount       = "hopcount"       // 5.4.6
	ManyRecipients = "manyrecipients" // 5.5.3
	BadHeader      = "badheader"      // 5.6.0
)

// Target is where a copy of the message goes.
type Target struct {
	Channel, Host, User string
	UID                 int    // the privilege
	Owner               string // address of the owner of the list, who becomes the sender; "" for none
	DSN                 string // value of the N line
}

// nobody is the privilege of an address from outside: ctlfile.Nobody.
var nobody, _ = strconv.Atoi(ctlfile.Nobody)

// maxAddress bounds the length of an address in bytes.
const maxAddress = 2000

// Fail returns the target of a recipient that cannot be routed.
func Fail(form, address, dsn string) Target {
	return Target{Channel: "error", Host: form, User: printable(address), UID: nobody, DSN: dsn}
}

// printable makes text from outside safe as a word of a control file.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if s = s[:min(len(s), maxAddress)]; s == "" {
		return "<>"
	}
	return s
}

// Split splits an address into its parts. It removes a source route (RFC 5321
// appendix C) and angle brackets, and a name without a domain gets the default one.
// ok is false for an address that a router must not accept from outside: a program, a
// file, a list of addresses.
func (t *Table) Split(address string) (local, domain string, ok bool) {
	if inner, found := strings.CutPrefix(address, "<"); found {
		address = strings.TrimSuffix(inner, ">")
	}
	if strings.HasPrefix(address, "@") {
		if _, after, found := strings.Cut(address, ":"); found {
			address = after
		}
	}
	if len(address) > maxAddress || !queue.PlainAddress(address) || strings.HasPrefix(address, "<") {
		return "", "", false
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return address, t.Domain, true
	}
	domain = strings.TrimSuffix(address[at+1:], ".")
	return address[:at], domain, domain != ""
}

// Address returns an address with its domain, without brackets and source route.
func (t *Table) Address(address string) (string, bool) {
	local, domain, ok := t.Split(address)
	return local + "@" + domain, ok
}

// IsLocal reports whether the mail for an address stays on this machine.
func (t *Table) IsLocal(local, domain string) bool {
	route, ok := t.Routes.Find(local, domain)
	return ok && route.Channel == Local
}

// Fault returns the form with which an address fails for certain, or "". It expands no
// alias: an address that is one has no fault.
func (t *Table) Fault(address string) string {
	local, domain, ok := t.Split(address)
	if !ok {
		return BadAddress
	}
	if t.Aliases.find(local+"@"+domain) != nil {
		return ""
	}
	route, ok := t.Routes.Find(local, domain)
	if !ok {
		return NoRoute
	}
	if route.Channel == Local && t.localAlias(local) == nil && !t.hasUser(local) {
		return UnknownUser
	}
	return ""
}

// MemberFault is a member of an alias that fails for certain.
type MemberFault struct {
	Line          int // of the alias
	Alias, Member string
	Form          string // as Fault returns it
}

// MemberFaults returns the members of aliases that fail for certain, in the order of the table.
func (t *Table) MemberFaults() (faults []MemberFault) {
	for _, a := range t.Aliases.names {
		for _, m := range a.members {
			if m.kind == program {
				continue
			}
			if form := t.Fault(m.text); form != "" {
				faults = append(faults, MemberFault{a.line, a.name, m.text, form})
			}
		}
	}
	slices.SortStableFunc(faults, func(a, b MemberFault) int { return cmp.Compare(a.Line, b.Line) })
	return faults
}

// Expansion routes the recipients of one message. It expands each alias once for each
// sender, however many recipients lead to it.
type Expansion struct {
	*Table
	limit   int      // of targets
	count   int      // of targets, of all recipients; limit+1 stands for any more
	targets []Target // of the recipient that is being routed
	done    map[string]bool
}

// NewExpansion begins a message that may have this many targets.
func (t *Table) NewExpansion(limit int) *Expansion {
	return &Expansion{Table: t, limit: limit, done: map[string]bool{}}
}

// Route returns the targets of a recipient. There are none if it is an alias whose
// members are targets of another recipient, and none beyond the limit. dsn is the value
// of its N line.
func (e *Expansion) Route(address, dsn string) []Target {
	e.targets = nil
	e.expand(address, scope{dsn: dsn})
	return e.targets
}

// Exceeded reports whether the message has more targets than the limit.
func (e *Expansion) Exceeded() bool { return e.count > e.limit }

func (e *Expansion) add(t Target) {
	if e.Exceeded() {
		return
	}
	if e.count++; !e.Exceeded() {
		e.targets = append(e.targets, t)
	}
}

// scope is what the members of an alias inherit.
type scope struct {
	chain []string // the names of the aliases that lead here, outermost first
	owner string
	dsn   string
}

func (e *Expansion) fail(form, address string, s scope) {
	t := Fail(form, address, s.dsn)
	t.Owner = s.owner
	e.add(t)
}

func (e *Expansion) expand(address string, s scope) {
	local, domain, ok := e.Split(address)
	if !ok {
		e.fail(BadAddress, address, s)
		return
	}
	whole := local + "@" + domain
	if a := e.Aliases.find(whole); a != nil && e.follow(a, whole, s) {
		return
	}
	route, ok := e.Routes.Find(local, domain)
	if !ok {
		e.fail(NoRoute, whole, s)
		return
	}
	if route.Channel == Local {
		if a := e.localAlias(local); a != nil && e.follow(a, whole, s) {
			return
		}
		if !e.hasUser(local) {
			e.fail(UnknownUser, whole, s)
			return
		}
	}
	e.deliver(route, whole, domain, s)
}

// deliver adds the target of an address that is not an alias.
func (e *Expansion) deliver(route Route, whole, domain string, s scope) {
	t := Target{Channel: route.Channel, Host: route.Host, User: whole, UID: nobody, Owner: s.owner, DSN: s.dsn}
	switch {
	case t.Host != "":
	case t.Channel == Local:
		t.Host = userHost(strings.TrimSuffix(whole, "@"+domain))
	default:
		t.Host = strings.ToLower(domain)
	}
	e.add(t)
}

// localAlias returns the alias of a local part, with its detail ("name+detail")
// or without it.
func (t *Table) localAlias(local string) *alias {
	if a := t.Aliases.find(local); a != nil {
		return a
	}
	base, _, found := strings.Cut(local, "+")
	if !found || base == "" {
		return nil
	}
	return t.Aliases.find(base)
}

// follow expands an alias. It returns false if mail is delivered to the address
// itself: an alias that names itself means the mailbox.
func (e *Expansion) follow(a *alias, whole string, s scope) bool {
	if n := len(s.chain); n > 0 && s.chain[n-1] == a.name {
		return false
	}
	if slices.Contains(s.chain, a.name) {
		e.fail(Loop, whole, s)
		return true
	}
	next := e.inherit(a, whole, s)
	// If two aliases or recipients lead to this one, its members are targets already, unless
	// other notices are asked for. The address has no part in this: senders can make any number
	// of addresses of a list, such as list+1 and list+2.
	key := s.owner + "\x00" + a.name + "\x00" + ctlfile.ParseNotify(next.dsn).String()
	if e.done[key] {
		return true
	}
	e.done[key] = true
	name, _, _ := strings.Cut(a.name, "@")
	for i := range a.members {
		if e.Exceeded() {
			break
		}
		m := &a.members[i]
		switch m.kind {
		case program:
			e.add(Target{Channel: Local, Host: userHost(name), User: m.text, UID: e.Aliases.uid, Owner: next.owner, DSN: next.dsn})
		case user:
			e.mailbox(m.text, next)
		default:
			e.expand(m.text, next)
		}
	}
	return true
}

// mailbox delivers to \name without looking it up again.
func (e *Expansion) mailbox(name string, s scope) {
	local, domain, ok := e.Split(name)
	route, found := e.Routes.Find(local, domain)
	switch {
	case !ok:
		e.fail(BadAddress, name, s)
	case !found:
		e.fail(NoRoute, local+"@"+domain, s)
	default:
		e.deliver(route, local+"@"+domain, domain, s)
	}
}

// inherit returns what the members of an alias inherit (RFC 3461 section 5.2.7). A
// single member inherits everything. Several members inherit everything but the
// request for notices of success, because the sender would get many. The members of a
// list inherit nothing but the record of its address (INRCPT): the owner of the list becomes
// the sender of the copies. The sender gets no notice of success for either.
func (e *Expansion) inherit(a *alias, whole string, s scope) scope {
	next := scope{chain: append(slices.Clone(s.chain), a.name), owner: s.owner, dsn: s.dsn}
	listName, _, _ := strings.Cut(a.name, "@")
	if owner := e.Aliases.names["owner-"+a.name]; owner != nil || e.Aliases.names["owner-"+listName] != nil {
		_, domain, _ := e.Split(whole)
		next.owner, next.dsn = "owner-"+listName+"@"+domain, addWord("", "INRCPT", whole)
		return next
	}
	original, ok := ctlfile.DSNWord(s.dsn, "ORCPT")
	if !ok {
		next.dsn = addWord(next.dsn, "ORCPT", whole)
	} else if _, before := ctlfile.DSNAddress(original); !strings.EqualFold(before, whole) {
		// The sender knows the recipient by another address. Record ours as well.
		next.dsn = addWord(next.dsn, "INRCPT", whole)
	}
	if len(a.members) > 1 {
		next.dsn = withoutSuccess(next.dsn)
	}
	return next
}

// addWord adds the address that an alias replaced to the words of an N line, unless the
// line has that word already: only the first such address is recorded.
func addWord(dsn, key, address string) string {
	if _, ok := ctlfile.DSNWord(dsn, key); ok {
		return dsn
	}
	return strings.TrimLeft(dsn+" "+key+"=rfc822;"+ctlfile.EncodeXtext(address), " ")
}

// withoutSuccess removes SUCCESS from the NOTIFY word.
func withoutSuccess(dsn string) string {
	words := strings.Fields(dsn)
	for i, w := range words {
		key, value, _ := strings.Cut(w, "=")
		if !strings.EqualFold(key, "NOTIFY") {
			continue
		}
		rest := slices.DeleteFunc(strings.Split(value, ","), func(o string) bool { return strings.EqualFold(o, "SUCCESS") })
		if len(rest) == 0 {
			rest = []string{"NEVER"}
		}
		words[i] = key + "=" + strings.Join(rest, ",")
	}
	return strings.Join(words, " ")
}
