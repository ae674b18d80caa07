package cluster

// The stream of news: what this node and others have found about destinations. The store
// passes it on to the loop of the node.

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// readNews reads the stream until ctx is done. It begins with the lines of the
// last hour, which say which destinations are dead.
func (s *store) readNews(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		if last == "" {
			now, err := s.reader.Time(ctx).Result()
			if err != nil {
				wait(ctx, time.Second)
				continue
			}
			last = strconv.FormatInt(now.Add(-newsAtStart).UnixMilli(), 10)
		}
		streams, err := s.reader.XRead(ctx, &redis.XReadArgs{
			Streams: []string{"{" + s.prefix + "}:news", last}, Count: 1000, Block: newsBlock,
		}).Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			wait(ctx, time.Second)
		}
		if len(streams) == 0 {
			continue
		}
		now, since := time.Time{}, boot(0)
		if slices.ContainsFunc(streams[0].Messages, func(m redis.XMessage) bool { return m.Values["channel"] != nil }) {
			if now, err = s.reader.Time(ctx).Result(); err != nil {
				wait(ctx, time.Second)
				continue // the same lines are read again
			}
			since = boot(s.clock())
		}
		a := new(answer)
		for _, stream := range streams {
			for _, line := range stream.Messages {
				last = line.ID
				if by, _ := line.Values["by"].(string); by != s.nonce {
					a.news = append(a.news, newsOf(line.ID, line.Values, now, since))
				}
			}
		}
		if len(a.news) == 0 {
			continue
		}
		select {
		case s.answers <- a:
			s.wake()
		case <-ctx.Done():
		}
	}
}

const (
	// newsBlock is how long one call waits for news.
	newsBlock = 2 * time.Second
	// newsAtStart is how old the first lines are that are read.
	newsAtStart = time.Hour
)

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
