package cluster

// The stream of news: limits whose division another node has changed (share.lua).

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// newsBlock is how long one call waits for news.
const newsBlock = 2 * time.Second

// readNews reads the stream until ctx is done, from now on: the node asks for each of its
// limits anyway, when it has mail for it.
func (s *store) readNews(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		if last == "" {
			now, err := s.reader.Time(ctx).Result()
			if err != nil {
				wait(ctx, time.Second)
				continue
			}
			last = strconv.FormatInt(now.UnixMilli(), 10)
		}
		streams, err := s.reader.XRead(ctx, &redis.XReadArgs{
			Streams: []string{keyPrefix + "news", last}, Count: 1000, Block: newsBlock,
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			wait(ctx, time.Second)
		}
		if len(streams) == 0 {
			continue
		}
		a := new(answer)
		for _, line := range streams[0].Messages {
			last = line.ID
			name, _ := line.Values["limit"].(string)
			if by, _ := line.Values["by"].(string); by != s.nonce && name != "" {
				a.news = append(a.news, name)
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

// wait waits for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
