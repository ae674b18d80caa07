package main

// Senders: the table of mailq senders.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"zsched/mailq"
	"zsched/mailq/client"
)

// listSenders prints the senders in the order of --sort, as many as --limit allows,
// and always the line of others and the total.
func (p *program) listSenders() error {
	command := "JSON SHOW SENDERS"
	if p.domains {
		command += " DOMAINS"
	}
	var items []*mailq.SenderItem
	for item, err := range client.Objects[mailq.SenderItem](p.client.Show(command)) {
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	mailq.SortSenders(items, cmp.Or(p.sort, "size"))
	printer := p.printer()
	if !p.json {
		if err := printer.Line(mailq.SenderHead()); err != nil {
			return err
		}
	}
	listed, shown := 0, 0
	for _, item := range items {
		if !item.Total && !item.Others {
			if p.limit > 0 && listed == p.limit {
				continue
			}
			listed++
		}
		if !item.Total {
			shown++
		}
		if err := p.printSender(printer, item, shown); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) printSender(printer *client.Printer, item *mailq.SenderItem, shown int) error {
	if p.json {
		var line strings.Builder
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(item); err != nil {
			return err
		}
		return printer.JSON(strings.TrimSuffix(line.String(), "\n"))
	}
	text := item.Text(printer.Now)
	if item.Total && shown < item.Senders {
		text += fmt.Sprintf(" (%d shown)", shown)
	}
	return printer.Line(text)
}
