package cluster

// The store: the scripts that run there.

import (
	"cmp"
	"context"
	"crypto/tls"
	_ "embed"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"zsched/internal/process"
	"zsched/internal/redisurl"
)

// The scripts. Each begins with what it does, and its keys, arguments and reply.
var (
	//go:embed share.lua
	shareText string
	//go:embed report.lua
	reportText string
	//go:embed epoch.lua
	epochText string
	//go:embed destination.lua
	destinationText string
)

var (
	shareScript       = redis.NewScript(shareText)
	reportScript      = redis.NewScript(reportText)
	epochScript       = redis.NewScript(epochText)
	destinationScript = redis.NewScript(destinationText)
)

// scripts are all of them. A connection loads them into the server.
var scripts = []*redis.Script{shareScript, reportScript, epochScript, destinationScript}

// call is one call of a script, and what is done with its reply.
type call struct {
	script *redis.Script
	keys   []string
	args   []any
	done   func(reply any, err error) error // returns what is wrong with the reply; nil: nothing is done
}

// batch is a number of calls that are sent together.
type batch struct {
	calls  []call
	sentAt boot
}

func (b *batch) add(script *redis.Script, keys []string, args []any, done func(any, error) error) {
	b.calls = append(b.calls, call{script, keys, args, done})
}

// answer is something that the store has said.
type answer struct {
	batch   *batch
	replies []reply
	err     error // of the whole batch
}

// reply is the reply to one call.
type reply struct {
	value any
	err   error
}

// errReply is the error of a reply that no script gives: something else answers than our store.
var errReply = errors.New("the store's reply is not understood")

// numbers returns a reply as a list of integers.
func numbers(reply any, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	values, ok := reply.([]any)
	if !ok {
		return nil, errReply
	}
	out := make([]int64, len(values))
	for i, v := range values {
		out[i], _ = v.(int64)
	}
	return out, nil
}

// ended gives the reply to the one who made the call, and returns what is wrong with it.
func (c *call) ended(r reply) error {
	if c.done == nil {
		return r.err
	}
	return c.done(r.value, r.err)
}

// answered takes what the store has said.
func (n *Node) answered(a *answer) {
	n.flying = false
	failed := a.err
	for i := range a.batch.calls {
		c := &a.batch.calls[i]
		r := reply{err: a.err}
		if a.err == nil {
			r = a.replies[i]
		}
		if err := c.ended(r); err != nil && failed == nil {
			failed = err
		}
	}
	n.batchEnded(a.batch.sentAt, failed)
}

// link carries out batches in the store, one at a time.
type link struct {
	client  redis.UniversalClient
	nonce   string
	timeout time.Duration // of a batch
	clock   func() time.Duration
	batches chan *batch
	answers chan *answer
	woken   chan struct{}
	stop    context.CancelFunc
	ended   chan struct{}
}

// SilenceLibrary keeps the library of the store from writing to standard error. It
// is called once in a process. Failures are counted.
func SilenceLibrary() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// openLink makes the link to the store, which does not connect yet.
func openLink(o Options) *link {
	s := &link{
		nonce: o.Nonce, timeout: cmp.Or(o.Timeout, callTimeout), ended: make(chan struct{}),
		batches: make(chan *batch, 1), answers: make(chan *answer, 1), woken: make(chan struct{}, 1), clock: process.SinceBoot,
	}
	if o.virtual.clock != nil {
		s.clock = o.virtual.clock
	}
	s.client = s.connect(o)
	return s
}

// tlsConfig returns the settings of TLS; nil: none.
func tlsConfig(a redisurl.Address) *tls.Config {
	if !a.TLS {
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(a.Addrs) == 1 {
		c.ServerName, _, _ = net.SplitHostPort(a.Addrs[0])
	}
	return c
}

func (s *link) connect(o Options) redis.UniversalClient {
	a, dial := o.Store, o.virtual.dial
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: s.timeout, TLSConfig: tlsConfig(a)})
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Dialer: dial,
		Addrs:  a.Addrs, DB: a.DB, Username: a.User, Password: a.Password, MasterName: a.Master,
		SentinelUsername: a.User, SentinelPassword: a.Password, TLSConfig: tlsConfig(a),
		Protocol: 2, DisableIdentity: true, OnConnect: s.meet,
		// Nothing is repeated: a call that timed out may still be carried out.
		MaxRetries: -1, MaxRedirects: 3, DialerRetries: 1,
		DialTimeout: s.timeout, ReadTimeout: s.timeout, WriteTimeout: s.timeout, ContextTimeoutEnabled: true,
		PoolSize: 2, PipelinePoolSize: 1, PoolTimeout: s.timeout,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// run carries out batches until ctx is done.
func (s *link) run(ctx context.Context) {
	defer close(s.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-s.batches:
			select {
			case s.answers <- s.carryOut(ctx, b):
				s.wake()
			case <-ctx.Done():
				return
			}
		}
	}
}

// wake says that there is an answer.
func (s *link) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// carryOut sends one batch and waits for its replies.
func (s *link) carryOut(ctx context.Context, b *batch) *answer {
	replies, err := s.exec(ctx, b.calls)
	return &answer{b, replies, err}
}

// meet prepares a new connection: it loads the scripts, and begins a new epoch if the
// server is not the one of the last epoch. So each call reaches a server that was checked.
// The library makes its connections to Sentinels in the same way; these need nothing.
func (s *link) meet(ctx context.Context, conn *redis.Conn) error {
	cmd := conn.Info(ctx, "server")
	var reported redis.Error
	if err := cmd.Err(); err != nil && !errors.As(err, &reported) {
		return err // an error that the server reports only means that it has no run_id
	}
	run := "none"
	for line := range strings.Lines(cmd.Val()) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); {
		case name == "redis_mode" && value == "sentinel":
			return nil
		case name == "run_id":
			run = value
		}
	}
	for _, script := range scripts {
		if err := script.Load(ctx, conn).Err(); err != nil {
			return err
		}
	}
	return epochScript.EvalSha(ctx, conn, []string{keyPrefix + "epoch", keyPrefix + "run"}, run, s.nonce).Err()
}

// exec sends calls in one pipeline. The error is that of the connection; the
// replies have those of single calls.
func (s *link) exec(ctx context.Context, calls []call) ([]reply, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
	}
	_, err := pipe.Exec(ctx)
	var reported redis.Error
	if err != nil && !errors.As(err, &reported) {
		return nil, err
	}
	replies := make([]reply, len(cmds))
	for i, cmd := range cmds {
		replies[i].value, replies[i].err = cmd.Result()
		if redis.HasErrorPrefix(replies[i].err, "NOSCRIPT") { // somebody has removed them
			for _, script := range scripts {
				_ = script.Load(ctx, s.client).Err()
			}
			return nil, replies[i].err
		}
	}
	return replies, nil
}
