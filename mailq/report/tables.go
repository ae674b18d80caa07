package report

// The tables: their columns, and the row for each item. A new column is a title and a cell.

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/mailq"
)

func left(title string) Column        { return Column{Title: title} }
func right(title string) Column       { return Column{Title: title, Right: true} }
func nameOf(name mailq.Name) string   { return name.Channel + "/" + name.Host }
func table(cols ...Column) *Table     { return &Table{Columns: cols, Sorted: -1} }
func (t *Table) add(r Row, c ...Cell) { r.Cells = c; t.Rows = append(t.Rows, r) }

// sorted sets the column by which the table is sorted at first.
func (t *Table) sorted(title string) *Table {
	t.Sorted, _ = t.Column(title)
	return t
}

// Threads is the table of threads.
func Threads(all []*mailq.Thread, now time.Time) *Table {
	t := table(left("THREAD"), right("LINES"), right("RCPTS"), right("OLDEST"), right("WINDOW"),
		left("STATE"), left("REASON")).sorted("RCPTS")
	for _, it := range all {
		t.add(Row{}, str(nameOf(it.Name)), count(it.JobLines), count(it.Recipients), since(it.OldestAt, now),
			window(it), state(it, now), str(mailq.LastReply(mailq.LastReason(it))))
	}
	return t
}

// window is the window of a thread, and its limit.
func window(t *mailq.Thread) Cell {
	return Cell{fmt.Sprintf("%d/%d", t.Window, t.WindowLimit), float64(t.Window)}
}

// state is the state of a thread, with the number of its agents or the time until its retry or
// until the end of its suspension. Sorted, the next to be tried comes first.
func state(t *mailq.Thread, now time.Time) Cell {
	const never = -1e12
	in := func(word string, at time.Time) Cell {
		left := max(0, at.Sub(now))
		return Cell{word + mailq.FormatAge(at, at.Add(-left)), -left.Seconds()}
	}
	switch {
	case t.Held:
		return Cell{"held", never}
	case t.SuspendedBy != "":
		return in("susp. ", t.SuspendedUntil)
	case t.Probing:
		return str("probing")
	case len(t.Agents) > 0:
		return str("busy " + strconv.Itoa(len(t.Agents)))
	case t.Wait != "":
		return str(string(t.Wait))
	case !t.WakeAt.IsZero():
		return in("in ", t.WakeAt)
	}
	return str("due")
}

// Rings is the table of rings.
func Rings(all []*mailq.Ring, _ time.Time) *Table {
	t := table(left("RING"), left("CLAUSES"), right("ID"), right("THREADS"), right("LINES"), right("AGENTS"), right("IDLE"), right("MAXRING"),
		right("MAXTHR"), right("OVERFEED"))
	for _, r := range all {
		name := r.Channel + "/" + r.Host
		if r.WithHost {
			name += " ($host=" + r.Example.Host + ")"
		}
		t.add(Row{}, str(name), str(clauseLines(r)), count(int(r.ID)), count(r.Threads), count(r.JobLines), count(r.Agents), count(r.Idle),
			count(r.MaxRing), count(r.MaxThr), count(r.Overfeed))
	}
	return t
}

// clauseLines returns the lines of scheduler.cf at which the clauses of a ring begin: "6,10,31".
func clauseLines(r *mailq.Ring) string {
	var lines []string
	for _, c := range r.Clauses {
		lines = append(lines, strconv.Itoa(c.Line))
	}
	return strings.Join(lines, ",")
}

// Agents is the table of the job lines that agents have, the oldest first.
func Agents(all []*mailq.JobLine, now time.Time) *Table {
	t := table(left("THREAD"), right("PID"), right("SINCE"), left("MESSAGE"), right("RCPTS"), left("SENDER")).sorted("SINCE")
	for _, l := range all {
		t.add(Row{}, str(nameOf(l.Name)), Cell{strconv.Itoa(l.PID), float64(l.PID)}, since(l.FedAt, now), str(l.Path),
			count(len(l.Recipients)), str(cmp.Or(l.Sender, "<>")))
	}
	return t
}

// lastRow begins the row of the others, or of the total, of a count.
func lastRow(it *mailq.CountItem) (key string, r Row) {
	switch {
	case it.Total:
		return "Total: " + units.Plural(it.Lines, "line", "lines"), Row{Last: true}
	case it.Others:
		return "(others)", Row{Last: true}
	}
	return it.Key, Row{}
}

// Counts is the table of a count.
func Counts(all []*mailq.CountItem, now time.Time) *Table {
	t := table(right("RCPTS"), right("MSGS"), right("OLDEST"), right("NEWEST"), left("EXAMPLE"), left("VALUE")).sorted("RCPTS")
	for _, it := range all {
		key, r := lastRow(it)
		example := ""
		if !r.Last {
			example = nameOf(it.Destination)
		}
		t.add(r, count(it.Recipients), count(it.Messages), since(it.OldestAt, now), since(it.NewestAt, now), str(example), str(key))
	}
	return t
}

// Ages is the table of a count by destination: recipients by the age of their message in minutes,
// as Postfix's qshape has it.
func Ages(all []*mailq.CountItem, _ time.Time) *Table {
	t := table(left("DESTINATION"), right("RCPTS")).sorted("RCPTS")
	for _, bound := range mailq.AgeBounds {
		t.Columns = append(t.Columns, right(strconv.Itoa(bound)))
	}
	t.Columns = append(t.Columns, right(strconv.Itoa(mailq.AgeBounds[len(mailq.AgeBounds)-1])+"+"))
	for _, it := range all {
		key, r := lastRow(it)
		cells := []Cell{str(key), count(it.Recipients)}
		for _, n := range it.Ages {
			cells = append(cells, count(n))
		}
		t.add(r, cells...)
	}
	return t
}
