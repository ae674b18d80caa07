package main

import (
	"encoding/json"
	"slices"
	"strings"

	"zsched/mailq"
)

// threadFilter is what -c and -h say: the channel and the host of the threads that are
// shown, regardless of case. "" matches every channel or host.
type threadFilter struct {
	channel, host string
}

func (f threadFilter) matches(name mailq.Name) bool {
	return (f.channel == "" || strings.EqualFold(f.channel, name.Channel)) &&
		(f.host == "" || strings.EqualFold(f.host, name.Host))
}

// matchesLine reports whether a line of SHOW QUEUE THREADS is about a thread that
// matches. Lines about rings and totals match if every thread does.
func (f threadFilter) matchesLine(line string) bool {
	if f == (threadFilter{}) {
		return true
	}
	name, isThread := lineName(line)
	return isThread && f.matches(name)
}

// lineName returns the thread that a line of SHOW QUEUE THREADS is about.
func lineName(line string) (_ mailq.Name, isThread bool) {
	name, isThread := strings.CutPrefix(line, "    ")
	if !isThread {
		return mailq.Name{}, false
	}
	channel, rest, _ := strings.Cut(name, "/")
	// The host is followed by /0 or /2, and then by the numbers.
	host, _, _ := strings.Cut(rest, "\t")
	host, _, _ = strings.Cut(host, " N=")
	host = host[:max(0, strings.LastIndexByte(host, '/'))]
	return mailq.Name{Channel: channel, Host: host}, true
}

// jsonName returns the thread that a line of JSON is about.
func jsonName(line string) (name mailq.Name, ok bool) {
	err := json.Unmarshal([]byte(line), &name)
	return name, err == nil && name != mailq.Name{}
}

// filterThreads returns the items whose name matches.
func filterThreads[T any](items []T, f threadFilter, name func(T) mailq.Name) []T {
	return slices.DeleteFunc(items, func(item T) bool { return !f.matches(name(item)) })
}
