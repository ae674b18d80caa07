package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"zsched/scheduler"
)

// What queries show of the cluster (mailq cluster): what this node knows itself
// (Overview), and the shares of all nodes, which only the store knows (AllShares).

// Overview is what a node knows of the cluster.
type Overview struct {
	Address string // of the store
	State   string // reached, lost, refused or not reached yet
	EpochAt time.Time
	Stats   Stats
	Nodes   []NodeStatus  // by name
	Limits  []LimitShares // on sessions, with this node's part only
}

// NodeStatus is what a node has reported of itself.
type NodeStatus struct {
	Name                          string
	Self                          bool
	ReportedAt                    time.Time // zero: not since this process was started
	Limits, Allowed, Busy, Wanted int
}

// LimitShares is a limit on sessions and who has which part of it.
type LimitShares struct {
	scheduler.ClusterLimit
	Most   int // the smallest of the settings
	Shares []Share
}

// Overview returns what this node knows of the cluster.
func (n *Node) Overview() Overview {
	m := &n.members
	o := Overview{Address: n.options.Store.String(), State: "not reached yet", Stats: n.Stats()}
	switch {
	case m.refused != "":
		o.State = "refused"
	case m.lost:
		o.State = "lost"
	case m.joined:
		o.State = "reached"
	}
	if m.born != 0 && m.clock != 0 {
		o.EpochAt = n.wall.Add(-time.Duration(n.now + m.clock - boot(m.born)*boot(time.Millisecond)))
	}
	for _, name := range m.names() {
		s := NodeStatus{Name: name, Self: name == m.self}
		status, at := n.status(), m.lastOK
		if !s.Self {
			status, at = m.known[name].status, m.known[name].reported
		}
		if m.joined && status != "" {
			s.ReportedAt = n.coreTime(at)
		}
		_, _ = fmt.Sscan(status, &s.Limits, &s.Allowed, &s.Busy, &s.Wanted)
		o.Nodes = append(o.Nodes, s)
	}
	for _, l := range n.sortedLimits() {
		own := Share{Node: m.self, Granted: max(0, min(l.told, l.max)), Busy: l.busy, Want: l.want, Limit: l.max}
		o.Limits = append(o.Limits, LimitShares{l.id, cmp.Or(l.least, l.max), []Share{own}})
	}
	return o
}

const (
	// maxShown bounds the limits that AllShares returns.
	maxShown = 10_000
	// showTimeout bounds the time that it takes.
	showTimeout = 5 * time.Second
)

// AllShares asks the store for the limits on sessions and who has which part of them,
// by name. Any goroutine may call it.
func (n *Node) AllShares(ctx context.Context) ([]LimitShares, error) {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	names, err := n.limitNames(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the store for its limits: %w", err)
	}
	var all []LimitShares
	for part := range slices.Chunk(names, maxPipeline) {
		pipe := n.store.reader.Pipeline()
		cmds := make([]*redis.MapStringStringCmd, len(part))
		for i, name := range part {
			cmds[i] = pipe.HGetAll(ctx, n.key("limit:"+name))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, fmt.Errorf("asking the store for shares: %w", err)
		}
		for i, name := range part {
			setting, rest, _ := strings.Cut(name, ":")
			channel, host, _ := strings.Cut(rest, "/")
			l := LimitShares{ClusterLimit: scheduler.ClusterLimit{Setting: setting, Channel: unescape(channel), Name: unescape(host)}, Shares: sharesOf(cmds[i].Val())}
			for _, s := range l.Shares {
				if s.Want+s.Busy > 0 && (l.Most == 0 || s.Limit < l.Most) {
					l.Most = s.Limit
				}
			}
			if l.Most > 0 {
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// limitNames returns the names of the limits in the store, sorted.
func (n *Node) limitNames(ctx context.Context) ([]string, error) {
	prefix := n.key("limit:")
	var names []string
	pattern := strings.NewReplacer("\\", "\\\\", "*", "\\*", "?", "\\?", "[", "\\[", "]", "\\]").Replace(prefix) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := n.store.reader.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			names = append(names, strings.TrimPrefix(key, prefix))
		}
		if len(names) > maxShown {
			return nil, errors.New("the store has more than " + strconv.Itoa(maxShown) + " limits")
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// unescape undoes escape.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}
