package main

// The backlog: how much mail in transport/ is due, and how much only waits for its
// next attempt. The scheduler answers this through the query protocol.

import (
	"context"
	"errors"
	"time"

	"zsched/mailq/client"
	"zsched/smtpserver"
)

// backlogTimeout is how long the scheduler may take for each step of an answer.
const backlogTimeout = 2 * time.Second

// backlog returns a function that asks the scheduler at an address, for
// smtpserver.Options. The function logs in as nobody, as mailq(1) does without a user.
func backlog(at client.Address) func() (smtpserver.Backlog, error) {
	return func() (smtpserver.Backlog, error) {
		var b smtpserver.Backlog
		conn, err := client.Dialer{Timeout: backlogTimeout}.Dial(context.Background(), at)
		if err != nil {
			return b, err
		}
		c, err := client.New(conn, client.Options{Server: at.String(), Timeout: backlogTimeout})
		if err != nil {
			_ = conn.Close()
			return b, err
		}
		defer c.Close()
		if c.Version != 2 {
			return b, errors.New("the scheduler speaks version 1 of the query protocol")
		}
		if err := c.Login("nobody", "nobody"); err != nil {
			return b, err
		}
		totals, err := c.Totals()
		if err == nil && totals == nil {
			err = errors.New("the scheduler's answer has no totals")
		}
		if err != nil {
			return b, err
		}
		_ = c.Quit()
		b.Messages = totals.Messages
		for _, state := range []string{"due", "fed", "reading"} {
			b.Ready += totals.States[state]
		}
		return b, nil
	}
}
