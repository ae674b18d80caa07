package client

import (
	"encoding/json"
	"errors"
	"iter"

	"zsched/mailq"
)

// ahead is how many commands are sent before the answer to the first is read.
// More would only fill buffers; fewer would wait for a distant server.
const ahead = 16

// Many sends n commands and calls do with each line of each answer, in order.
// An error of do ends it.
func (c *Client) Many(n int, command func(i int) string, do func(i int, line string) error) error {
	sent := 0
	for i := range n {
		for ; sent < n && sent < i+ahead; sent++ {
			if err := c.Send(command(sent)); err != nil {
				return err
			}
		}
		for line, err := range c.Lines() {
			if err == nil {
				err = do(i, line)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Names returns the names of all threads that have mail.
func (c *Client) Names() ([]mailq.Name, error) {
	var names []mailq.Name
	for line, err := range c.Show("SHOW QUEUE THREADS2") {
		if err != nil {
			return nil, err
		}
		t, err := ThreadLine(line)
		if err != nil {
			return nil, c.spoil(err)
		}
		names = append(names, t.Name)
	}
	return names, nil
}

// List writes the mail of threads.
func (c *Client) List(names []mailq.Name, p *Printer) error {
	err := c.Many(len(names), func(i int) string { return ShowThread(names[i]) },
		func(i int, line string) error {
			// A line about the thread itself precedes its recipients.
			if len(line) > 0 && line[0] == '#' {
				return nil
			}
			r, err := parseRecipient(line)
			if err != nil {
				return err
			}
			return p.Recipient(names[i], r)
		})
	if err != nil {
		p.foot()
		return errors.Join(err, p.err)
	}
	return p.Finish(2)
}

// ShowThread is the command that lists the mail of a thread.
func ShowThread(name mailq.Name) string {
	return "SHOW THREAD " + mailq.Quote(name.Channel) + " " + mailq.Quote(name.Host)
}

// Objects reads the answer to a command with JSON in front, an object a line.
// In the place of the rest of a list that is not whole comes an error.
func Objects[T any](lines iter.Seq2[string, error]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		first := true
		for line, err := range lines {
			if err == nil {
				err = jsonTrouble(first, line)
			}
			first = false
			object := new(T)
			if err == nil {
				if err = json.Unmarshal([]byte(line), object); err != nil {
					err = fault(Garbled, "malformed JSON %q: %w", line, err)
				}
			}
			if !yield(object, err) || err != nil {
				return
			}
		}
	}
}

// jsonTrouble is the error that a line with a Trouble stands for, or nil.
func jsonTrouble(first bool, line string) error {
	var trouble mailq.ListError
	if len(line) > 9 && line[:9] == `{"error":` && json.Unmarshal([]byte(line), &trouble) == nil {
		return notWhole(first, trouble.Error)
	}
	return nil
}
