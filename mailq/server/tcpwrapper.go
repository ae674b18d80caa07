package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
)

// TCP-wrappers' files, hosts.allow and hosts.deny, say which addresses get a dump
// of v1 (scheduler(8), "TCP-WRAPPER AND MAILQ"). hosts.allow is read first, then
// hosts.deny; the first line that matches decides. If no line matches, only this
// host gets a dump.
//
// These forms are understood: the daemons mailq and ALL; the clients ALL,
// localhost, addresses, prefixes such as 1.2.3. and networks such as 1.2.3.0/24,
// 1.2.3.0/255.255.255.0 and [2001:db8::]/32, also after ALL@. A line that has another form
// admits nobody, and in hosts.deny it refuses every address. A line with options, which might say
// "deny", refuses every address that it could match.

// errWrapper says that a line has a form that is not understood.
var errWrapper = errors.New("not understood")

// wrappersAdmit reports whether an address gets a dump. A missing file counts as
// empty; if a file cannot be read, no address is admitted.
func wrappersAdmit(allow, deny string, peer netip.Addr) (bool, error) {
	peer = peer.Unmap().WithZone("")
	for _, path := range []string{allow, deny} {
		lines, err := readWrappers(path)
		if err != nil {
			return false, err
		}
		for _, line := range lines {
			fields := wrapperFields.FindAllString(line, -1)
			matches, err := wrapperMatches(fields, peer)
			if (matches || err != nil) && (path == deny || len(fields) > 2) {
				return false, nil
			}
			if matches && err == nil {
				return true, nil
			}
		}
	}
	return peer.IsLoopback(), nil
}

// readWrappers returns the lines of a file without comments.
func readWrappers(path string) (lines []string, err error) {
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
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\\\n", ""), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// wrapperFields matches what stands between the colons outside of brackets.
var wrapperFields = regexp.MustCompile(`(?:\[[^\]]*\]|[^:\[])+`)

// wrapperMatches reports whether the fields of a line, daemons and clients, are about mailq and
// an address.
func wrapperMatches(fields []string, peer netip.Addr) (matches bool, err error) {
	isBlank := func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }
	for _, daemon := range strings.FieldsFunc(fields[0], isBlank) {
		if strings.ContainsAny(daemon, "@*?/") || strings.EqualFold(daemon, "EXCEPT") {
			return false, errWrapper
		}
		matches = matches || strings.EqualFold(daemon, "mailq") || strings.EqualFold(daemon, "ALL")
	}
	if len(fields) < 2 {
		return false, errWrapper
	}
	if !matches {
		return false, nil
	}
	matches = false
	for _, client := range strings.FieldsFunc(fields[1], isBlank) {
		matched, err := wrapperClient(client, peer)
		if err != nil {
			return false, err
		}
		matches = matches || matched
	}
	return matches, nil
}

// wrapperClient reports whether an address is one of a client.
func wrapperClient(client string, peer netip.Addr) (bool, error) {
	if user, address, found := strings.Cut(client, "@"); found {
		if !strings.EqualFold(user, "ALL") {
			return false, errWrapper
		}
		client = address
	}
	switch {
	case strings.EqualFold(client, "ALL"):
		return true, nil
	case strings.EqualFold(client, "localhost"):
		return peer.IsLoopback(), nil
	case strings.HasSuffix(client, ".") && strings.Trim(client, "0123456789.") == "":
		return peer.Is4() && strings.HasPrefix(peer.String(), client), nil
	}
	client = strings.NewReplacer("[", "", "]", "").Replace(client)
	if addr, err := netip.ParseAddr(client); err == nil {
		return peer == addr, nil
	}
	text, width, _ := strings.Cut(client, "/")
	if mask, err := netip.ParseAddr(width); err == nil && mask.Is4() {
		ones, _ := net.IPMask(mask.AsSlice()).Size() // 0 for a mask with a zero before a one
		client = fmt.Sprintf("%s/%d", text, ones)
		if ones == 0 {
			return false, errWrapper
		}
	}
	prefix, err := netip.ParsePrefix(client)
	return err == nil && prefix.Masked().Contains(peer), err
}
