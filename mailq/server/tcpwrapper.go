package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
)

// TCP-wrappers' files, hosts.allow and hosts.deny, say which addresses get a dump
// of v1 (scheduler(8), "TCP-WRAPPER AND MAILQ"). hosts.allow is read first, then
// hosts.deny; the first line that matches decides. If no line matches, only this
// host gets a dump.
//
// These forms are understood: the daemons mailq and ALL; the clients ALL,
// localhost, addresses, prefixes such as 1.2.3. and networks such as 1.2.3.0/24,
// 1.2.3.0/255.255.255.0 and [2001:db8::]/32, also after ALL@. No other form admits
// anybody. A client list with names or EXCEPT does not match in
// hosts.allow and matches every address in hosts.deny. A line with options, which
// might say "deny", refuses every address that it could match.

// matching says whether a pattern matches. perhaps: the pattern is
// not understood and may match.
type matching int

const (
	no matching = iota
	perhaps
	yes
)

// wrappersAdmit reports whether an address gets a dump. A missing file counts as
// empty; if a file cannot be read, no address is admitted.
func wrappersAdmit(allow, deny string, peer netip.Addr) (bool, error) {
	peer = peer.Unmap().WithZone("")
	lines, err := readWrappers(allow)
	if err != nil {
		return false, err
	}
	for _, w := range lines {
		client := w.client(peer)
		switch {
		case w.daemon == no || client == no:
		case w.options:
			return false, nil
		case w.daemon == yes && client == yes:
			return true, nil
		}
	}
	if lines, err = readWrappers(deny); err != nil {
		return false, err
	}
	for _, w := range lines {
		if w.daemon != no && w.client(peer) != no {
			return false, nil
		}
	}
	return peer.IsLoopback(), nil
}

// wrapperLine is a line whose daemon list matches mailq, or may match it.
type wrapperLine struct {
	daemon  matching
	clients []string // nil: not understood
	options bool
}

func readWrappers(path string) ([]wrapperLine, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("TCP-wrappers: %w", err)
	}
	return parseWrappers(string(text)), nil
}

func parseWrappers(text string) (lines []wrapperLine) {
	text = strings.ReplaceAll(text, "\\\n", "")
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := splitColons(line)
		if len(fields) < 2 {
			lines = append(lines, wrapperLine{daemon: perhaps})
			continue
		}
		w := wrapperLine{daemon: matchDaemon(splitList(fields[0])), clients: splitList(fields[1]), options: len(fields) > 2}
		if w.daemon != no {
			lines = append(lines, w)
		}
	}
	return lines
}

// splitColons splits a line at the colons outside of brackets.
func splitColons(line string) (fields []string) {
	from, depth := 0, 0
	for i := range len(line) {
		switch line[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ':':
			if depth <= 0 {
				fields = append(fields, line[from:i])
				from = i + 1
			}
		}
	}
	return append(fields, line[from:])
}

func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' })
}

func matchDaemon(words []string) matching {
	m := no
	for _, w := range words {
		switch {
		case strings.EqualFold(w, "EXCEPT"):
			return perhaps
		case strings.EqualFold(w, "mailq") || strings.EqualFold(w, "ALL"):
			m = yes
		case strings.ContainsAny(w, "@*?/"):
			m = max(m, perhaps)
		}
	}
	return m
}

func (w *wrapperLine) client(peer netip.Addr) matching {
	if len(w.clients) == 0 {
		return perhaps
	}
	m := no
	for _, c := range w.clients {
		if strings.EqualFold(c, "EXCEPT") {
			return perhaps
		}
		m = max(m, matchClient(c, peer))
	}
	return m
}

func matchClient(pattern string, peer netip.Addr) matching {
	if at := strings.LastIndexByte(pattern, '@'); at >= 0 {
		if !strings.EqualFold(pattern[:at], "ALL") {
			return perhaps
		}
		pattern = pattern[at+1:]
	}
	if strings.EqualFold(pattern, "ALL") {
		return yes
	}
	if strings.EqualFold(pattern, "localhost") {
		return yesIf(peer.IsLoopback())
	}
	if strings.HasSuffix(pattern, ".") && strings.Trim(pattern, "0123456789.") == "" {
		return yesIf(peer.Is4() && strings.HasPrefix(peer.String(), pattern))
	}
	prefix, ok := parseWrapperNet(pattern)
	if !ok {
		return perhaps
	}
	return yesIf(prefix.Contains(peer))
}

func yesIf(b bool) matching {
	if b {
		return yes
	}
	return no
}

// parseWrapperNet reads an address or a network.
func parseWrapperNet(s string) (netip.Prefix, bool) {
	s = strings.NewReplacer("[", "", "]", "").Replace(s)
	text, width, slash := strings.Cut(s, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	if !slash {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	if mask, err := netip.ParseAddr(width); err == nil && mask.Is4() && addr.Is4() {
		bits, ok := maskBits(mask.As4())
		return netip.PrefixFrom(addr, bits).Masked(), ok
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err == nil
}

// maskBits returns the width of a mask. ok is false if a zero precedes a one.
func maskBits(mask [4]byte) (bits int, ok bool) {
	for i := range 32 {
		one := mask[i/8]&(0x80>>(i%8)) != 0
		if one && bits != i {
			return 0, false
		}
		if one {
			bits++
		}
	}
	return bits, true
}
