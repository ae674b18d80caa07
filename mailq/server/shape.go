package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/mailq"
)

const (
	maxShapes    = 100_000 // destinations that are counted exactly
	maxShapeName = 48      // width of the column of names
)

// showShape executes SHOW SHAPE, which prints the table of Postfix's qshape: for
// each destination the number of recipients by the age of their message. The
// first line has the sums. The destinations follow, largest first.
func showShape(r *request, ctx context.Context) bool {
	return !r.hasNoArguments() || r.list(func(out *answer) error {
		items, err := gatherShape(ctx, r.server.queue, time.Now())
		if err != nil {
			return err
		}
		if r.asJSON {
			for _, it := range items {
				if err := out.object(it); err != nil {
					return err
				}
			}
			return nil
		}
		return shapeText(out, items)
	})
}

func gatherShape(ctx context.Context, queue Queue, now time.Time) ([]*mailq.ShapeItem, error) {
	list := topList[mailq.Name, mailq.ShapeItem]{
		limit: maxShapes,
		compare: func(a, b *mailq.ShapeItem) int {
			return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
		},
		add: func(to, count *mailq.ShapeItem) {
			to.Total += count.Total
			for column, n := range count.Ages {
				to.Ages[column] += n
			}
		},
		others: mailq.ShapeItem{Others: true},
	}
	all := &mailq.ShapeItem{All: true}
	for job, err := range queue.Jobs(ctx, mailq.Name{}) {
		if err != nil {
			return nil, err
		}
		it := list.of(job.Name, func() (mailq.Name, *mailq.ShapeItem) {
			name := mailq.Name{Channel: strings.Clone(job.Channel), Host: strings.Clone(job.Host)}
			return name, &mailq.ShapeItem{Name: name}
		})
		n, column := len(job.Recipients), shapeColumn(now.Sub(job.ArrivedAt))
		it.Total += n
		it.Ages[column] += n
		all.Total += n
		all.Ages[column] += n
	}
	return append([]*mailq.ShapeItem{all}, list.lines()...), nil
}

func shapeColumn(age time.Duration) int {
	for i, bound := range mailq.ShapeBounds {
		if age < time.Duration(bound)*time.Minute {
			return i
		}
	}
	return len(mailq.ShapeBounds)
}

func shapeLabel(it *mailq.ShapeItem) string {
	switch {
	case it.All:
		return "TOTAL"
	case it.Others:
		return "(others)"
	}
	return mailq.Field(it.Channel) + "/" + mailq.Field(it.Host)
}

func shapeText(out *answer, items []*mailq.ShapeItem) error {
	width := 0
	for _, it := range items {
		width = max(width, min(maxShapeName, len(shapeLabel(it))))
	}
	// The first line has the sums, so it has the widest numbers.
	columns := append([]int{items[0].Total}, items[0].Ages[:]...)
	heads := []string{"T"}
	for _, bound := range mailq.ShapeBounds {
		heads = append(heads, strconv.Itoa(bound))
	}
	heads = append(heads, strconv.Itoa(mailq.ShapeBounds[len(mailq.ShapeBounds)-1])+"+")
	for i, n := range columns {
		columns[i] = 1 + max(len(strconv.Itoa(n)), len(heads[i]))
	}
	row := func(label string, cells []string) error {
		b := fmt.Appendf(out.line[:0], "%*s", width, label)
		for i, c := range cells {
			b = fmt.Appendf(b, "%*s", columns[i], c)
		}
		out.line = b
		return out.put(b)
	}
	if err := row("", heads); err != nil {
		return err
	}
	for _, it := range items {
		cells := []string{strconv.Itoa(it.Total)}
		for _, n := range it.Ages {
			cells = append(cells, strconv.Itoa(n))
		}
		if err := row(shapeLabel(it), cells); err != nil {
			return err
		}
	}
	return nil
}
