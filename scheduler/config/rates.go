package config

// Rates: the values of rate, channelrate, siterate and clusterrate.

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/scheduler"
)

// Bounds of a rate.
const (
	maxRecipients = 1000000000
	maxRates      = 100 // in one table
)

// rates is a rate, "100/1m", or a table of rates by date, "500/1d, 2026-12-01
// 1000/1d". A date is local midnight. "0" sets no limit.
type rates struct {
	field func(*scheduler.Params) *[]scheduler.Rate
}

func (k rates) String() string { return "N/time, or a table by date" }

func (k rates) read(text string, r *reader) (func(*scheduler.Params), error) {
	table, err := parseRates(text, cmp.Or(r.system.Location, time.Local))
	if err != nil {
		return nil, err
	}
	return func(p *scheduler.Params) { *k.field(p) = table }, nil
}

func parseRates(text string, zone *time.Location) ([]scheduler.Rate, error) {
	if text == "0" {
		return nil, nil
	}
	var table []scheduler.Rate
	for i, entry := range strings.Split(text, ",") {
		words := strings.Fields(entry)
		var from time.Time
		if i > 0 && len(words) == 2 {
			var err error
			from, err = time.ParseInLocation(time.DateOnly, words[0], zone)
			if err != nil {
				return nil, fmt.Errorf("%q is not a date, such as 2026-12-01", words[0])
			}
			if !from.After(table[i-1].From) {
				return nil, fmt.Errorf("the date %s is not after the one before it", words[0])
			}
			words = words[1:]
		}
		if len(words) != 1 || i > 0 && from.IsZero() {
			return nil, errors.New("must be a number of recipients and a time, such as 100/1m, or a table such as 500/1d, 2026-12-01 1000/1d")
		}
		rate, err := parseRate(words[0])
		if err != nil {
			return nil, err
		}
		rate.From = from
		table = append(table, rate)
	}
	if len(table) > maxRates {
		return nil, fmt.Errorf("must have at most %d rates", maxRates)
	}
	return table, nil
}

// parseRate reads one rate, such as 100/1m.
func parseRate(text string) (scheduler.Rate, error) {
	number, span, _ := strings.Cut(text, "/")
	n, err := parseCount(number, 1, maxRecipients, false)
	if err != nil {
		return scheduler.Rate{}, fmt.Errorf("%q: the number of recipients %w", text, err)
	}
	d, err := units.ParseInterval(span)
	if err == nil && (d < time.Second || d > year) {
		err = fmt.Errorf("must be from 1s to %s", units.FormatInterval(year))
	}
	if err != nil {
		return scheduler.Rate{}, fmt.Errorf("%q: the time: %w", text, err)
	}
	return scheduler.Rate{Recipients: n, Span: d}, nil
}

func (k rates) show(p *scheduler.Params) string {
	var entries []string
	for _, r := range *k.field(p) {
		entry := strconv.Itoa(r.Recipients) + "/" + units.FormatInterval(r.Span)
		if !r.From.IsZero() {
			entry = r.From.Format(time.DateOnly) + " " + entry
		}
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return ""
	}
	return `"` + strings.Join(entries, ", ") + `"`
}

// oneRate is a rate without a table, "100/1m". "0" sets no limit.
type oneRate struct {
	field func(*scheduler.Params) *scheduler.Rate
}

func (k oneRate) String() string { return "N/time" }

func (k oneRate) read(text string, _ *reader) (func(*scheduler.Params), error) {
	var rate scheduler.Rate
	if text != "0" {
		var err error
		if rate, err = parseRate(text); err != nil {
			return nil, err
		}
	}
	return func(p *scheduler.Params) { *k.field(p) = rate }, nil
}

func (k oneRate) show(p *scheduler.Params) string {
	r := k.field(p)
	if r.Recipients == 0 {
		return ""
	}
	return strconv.Itoa(r.Recipients) + "/" + units.FormatInterval(r.Span)
}
