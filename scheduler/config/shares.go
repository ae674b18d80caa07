package config

// The file of PARAMshares: the weights of senders and domains.

import (
	"fmt"
	"strconv"
	"strings"
)

// maxWeight is the highest weight of a sender.
const maxWeight = 1000

// sharesFile is the path of a file of weights. A line has a sender or a domain,
// whose case does not matter, and its weight; "#" begins a comment; the last line
// for a name applies.
type sharesFile struct{}

func (sharesFile) String() string { return "path" }

func (sharesFile) read(value string, r *reader) (func(*Params), error) {
	file := r.expand(value)
	data, err := readFile(file)
	if err != nil {
		return nil, err
	}
	weights, wrong := parseShares(file, data)
	r.errors = append(r.errors, wrong...)
	return func(p *Params) { p.SharesFile, p.Shares = file, weights }, nil
}

func (sharesFile) show(p *Params) string {
	return text[Params]{field: func(p *Params) *string { return &p.SharesFile }}.show(p)
}

func parseShares(file string, data []byte) (weights map[string]int, wrong Errors) {
	weights = make(map[string]int)
	line := 0
	for content := range strings.Lines(string(data)) {
		line++
		content, _, _ = strings.Cut(content, "#")
		fields := strings.Fields(content)
		if len(fields) == 0 {
			continue
		}
		weight := 0
		if len(fields) == 2 {
			weight, _ = strconv.Atoi(fields[1])
		}
		if weight < 1 || weight > maxWeight {
			wrong = append(wrong, Error{
				Place{file, line, 1},
				fmt.Sprintf("a line must have a sender or a domain and its weight, a number from 1 to %d", maxWeight),
			})
			continue
		}
		weights[strings.ToLower(fields[0])] = weight
	}
	return weights, wrong
}
