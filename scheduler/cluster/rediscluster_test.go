package cluster_test

// A real Redis Cluster of three masters.

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"zsched/internal/peertest"
	"zsched/internal/redisurl"
	"zsched/scheduler"
	"zsched/scheduler/cluster"
)

// startRedisCluster starts three masters and returns them. The first one has only the hash
// slot of the limits; the others share the rest.
func startRedisCluster(t *testing.T) (servers []*peertest.Redis) {
	t.Helper()
	ctx := context.Background()
	var clients []*redis.Client
	for range 3 {
		r := peertest.FindRedis(t)
		if r == nil {
			t.Skip("no redis-server: make peers gets one")
		}
		r.Args = []string{"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(peertest.FreePort(t)), "--cluster-node-timeout", "60000"}
		r.Start()
		servers = append(servers, r)
		c := redis.NewClient(&redis.Options{Addr: r.Addr(), Protocol: 2, DisableIdentity: true})
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	limits := int(clients[0].ClusterKeySlot(ctx, "{zs}:epoch").Val())
	slots := [][]int{{limits}, {}, {}}
	for slot := range 16384 {
		if slot != limits {
			slots[1+slot%2] = append(slots[1+slot%2], slot)
		}
	}
	for i, c := range clients {
		if err := c.ClusterAddSlots(ctx, slots[i]...).Err(); err != nil {
			t.Fatal(err)
		}
		r := servers[i]
		if err := clients[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", r.Port, r.Args[3]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		peertest.Until(t, "the servers are a cluster", func() bool {
			info := c.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	return servers
}

// allowances collects what nodes may use.
type allowances struct {
	mu       sync.Mutex
	sessions map[*runningNode]int
	tokens   int
}

func (a *allowances) take(n *runningNode, e scheduler.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := e.(type) {
	case scheduler.Allowance:
		if e.Limit.Setting == "clusterrate" {
			a.tokens += e.Tokens
		} else {
			a.sessions[n] = e.Sessions
		}
	}
}

// TestRedisCluster: limits are divided and rates drawn by way of a Redis Cluster,
// and its servers are one store, with one epoch.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	servers := startRedisCluster(t)
	url := fmt.Sprintf("redis://%s,%s/0", servers[1].Addr(), servers[2].Addr())
	a := &allowances{sessions: map[*runningNode]int{}}
	nodes := []*runningNode{run(t, url, "node1", 0, a.take)}
	nodes[0].reaches(t)
	nodes = append(nodes, run(t, url, "node2", 0, a.take))
	limit := scheduler.ClusterLimit{Setting: "clustermax", Channel: "smtp", Name: "a.example"}
	rate := scheduler.ClusterLimit{Setting: "clusterrate", Channel: "smtp", Name: "b.example"}
	for _, n := range nodes {
		n.reaches(t)
		n.do(func() { n.Perform(scheduler.Want{Limit: limit, Max: 10, Want: 20}) })
	}
	peertest.Until(t, "each node has half of the limit", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.sessions[nodes[0]] == 5 && a.sessions[nodes[1]] == 5
	})
	nodes[0].do(func() { nodes[0].Perform(scheduler.Draw{Limit: rate, Max: 100, Per: time.Second, Tokens: 3}) })
	peertest.Until(t, "tokens are drawn", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.tokens > 0
	})
	if all, err := nodes[1].AllShares(context.Background()); err != nil || len(all) != 1 || len(all[0].Shares) != 2 {
		t.Errorf("the shares are %+v, %v", all, err)
	}
	// The epoch is that of the server that has the limits: if a replica takes its place,
	// a new one begins.
	ctx := context.Background()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[2].Addr()}, Protocol: 2, DisableIdentity: true})
	defer client.Close()
	master, err := client.MasterForKey(ctx, "{zs}:epoch")
	if err != nil {
		t.Fatal(err)
	}
	run := client.Get(ctx, "{zs}:run").Val()
	if info := master.Info(ctx, "server").Val(); run == "" || !strings.Contains(info, "run_id:"+run) {
		t.Errorf("the epoch is that of the server %q, and the limits are on\n%s", run, info)
	}
	for _, n := range nodes {
		if s := n.stats(); s.Epochs != 1 || s.Losses != 0 {
			t.Errorf("%d epochs, lost %d times", s.Epochs, s.Losses)
		}
	}
}

// TestOneServerOfARedisCluster: if PARAMcluster names only one, the log says what to do.
func TestOneServerOfARedisCluster(t *testing.T) {
	t.Parallel()
	servers := startRedisCluster(t)
	// The keys with {zs} are on one of the servers; others are named, too.
	var logged sync.Map
	var nodes []*runningNode
	for _, r := range servers {
		address, err := redisurl.Parse("redis://" + r.Addr())
		if err != nil {
			t.Fatal(err)
		}
		n := &runningNode{Node: cluster.Open(cluster.Options{
			Store: address, Prefix: "zs", Node: r.Addr(), Place: r.Addr(), Nonce: r.Addr(), Timeout: time.Second,
			Log: func(_ scheduler.Severity, text string) { logged.Store(text, true) },
		}), events: func(scheduler.Event) {}}
		defer n.Close()
		nodes = append(nodes, n)
	}
	peertest.Until(t, "the log says what to do", func() bool {
		for _, n := range nodes {
			n.do(func() {})
		}
		_, found := logged.Load("cluster: the store is one of the servers of a Redis Cluster: name at least two of them in PARAMcluster, separated by commas")
		return found
	})
}
