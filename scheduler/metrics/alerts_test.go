package metrics

// The alert rules for Prometheus and the dashboard for Grafana: they name only
// metrics and labels that the scheduler exports.

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"zsched/internal/metrics"
	"zsched/mailq"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// fullScrape gathers every metric.
func fullScrape(t *testing.T) prometheus.Gatherers {
	t.Helper()
	now := time.Now()
	stats := NewStats()
	s := &scrape{
		server: &Server{
			Stats: stats, EventsLost: func() uint64 { return 0 },
		},
		now: now, channels: []view.Channel{{Name: "smtp"}},
		threads: threads{waiting: map[view.Wait]int{view.WaitTA: 1, view.WaitCommand: 1}},
		cluster: []*mailq.ClusterItem{{Store: &mailq.ClusterStore{}}}, kept: &mailq.Totals{},
	}
	stats.spoolErrors.WithLabelValues("mark")
	stats.refused.WithLabelValues(spool.Vanished.String())
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Numbers(s.send))
	return prometheus.Gatherers{stats.registry, registry}
}

// exported returns the names of all series with their labels, and each label's
// values in a full scrape. Prometheus itself makes the series up.
func exported(t *testing.T) map[string]map[string][]string {
	t.Helper()
	registry := fullScrape(t)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string][]string{"up": {}}
	for _, family := range families {
		labels := make(map[string][]string)
		for _, metric := range family.GetMetric() {
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = append(labels[pair.GetName()], pair.GetValue())
			}
		}
		names := []string{family.GetName()}
		if family.GetMetric()[0].GetHistogram() != nil {
			names = []string{names[0] + "_bucket", names[0] + "_count", names[0] + "_sum"}
		}
		for _, name := range names {
			all[name] = labels
		}
	}
	return all
}

var (
	selector = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"`)
	// notNames are the parts of an expression that have names of something
	// other than metrics: matchers, ranges and labels to group by.
	notNames = regexp.MustCompile(`\{[^}]*\}|\[[^]]*\]|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	// name is a metric or, where a parenthesis follows, a function.
	name      = regexp.MustCompile(`\b[a-zA-Z_:][\w:]*\b(\s*\()?`)
	operators = []string{"and", "or", "unless", "offset", "bool"}
)

// others begin the names of metrics that other programs export, which their own tests check.
var others = regexp.MustCompile(`\b(smtpserver|router)_\w+(\{[^}]*\})?`)

// unknown returns what an expression names and the scheduler does not export.
// Prometheus itself adds the labels job and instance.
func unknown(expr string, all map[string]map[string][]string) (wrong []string) {
	expr = others.ReplaceAllString(expr, " ")
	for _, found := range name.FindAllString(notNames.ReplaceAllString(expr, " "), -1) {
		if !strings.HasSuffix(found, "(") && !slices.Contains(operators, found) && all[found] == nil {
			wrong = append(wrong, found)
		}
	}
	for _, of := range selector.FindAllStringSubmatch(expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(of[2], -1) {
			values, ok := all[of[1]][m[1]]
			switch {
			case m[1] == "job" || m[1] == "instance":
			case !ok:
				wrong = append(wrong, of[1]+"{"+m[1]+"}")
			case m[2] == "=" && !slices.Contains(values, m[3]):
				wrong = append(wrong, of[1]+"{"+m[1]+"="+m[3]+"}")
			case of[1] == "scheduler_threads_waiting":
				for value := range strings.SplitSeq(m[3], "|") {
					if !slices.Contains(waits(), value) {
						wrong = append(wrong, of[1]+"{"+m[1]+"="+value+"}")
					}
				}
			}
		}
	}
	return wrong
}

// waits are the values of the label of scheduler_threads_waiting: the reasons in the
// source of package view.
func waits() (all []string) {
	text, err := os.ReadFile("../view/explain.go")
	if err != nil {
		panic(err)
	}
	for _, found := range regexp.MustCompile(`Wait\w+ +Wait += "(.+)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, found[1])
	}
	return all
}

// Mail that no agent gets, and a store that cannot be reached, set off an alert.
func TestStuckMailSetsOffAnAlert(t *testing.T) {
	text, err := os.ReadFile("../../packaging/prometheus/zsched.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{
		`scheduler_oldest_seconds{state="due"} > 4 * 3600`, `scheduler_threads_waiting{for="no command"} > 0`,
		`scheduler_kept{state="unloaded"} > 0`, `scheduler_kept{state="quarantined"} > 0`,
		`scheduler_kept_oldest_seconds{state=~"held|held_threads"} > 7 * 24 * 3600`, `scheduler_cluster_lost == 1`,
	} {
		if !strings.Contains(string(text), "expr: "+expr+"\n") {
			t.Errorf("no alert has the expression %s", expr)
		}
	}
}

func TestUnknownNamesAreFoundInExpressions(t *testing.T) {
	all := exported(t)
	for expr, want := range map[string][]string{
		`scheduler_messages > 1e3 and deriv(scheduler_messages[1h]) > 0 or absent(up{job="x"})`:           nil,
		`sum by (le) (rate(scheduler_outcome_seconds_bucket{instance=~"$instance"}[$__rate_interval]))`:   nil,
		`scheduler_spool_up == 0 and on (instance) scheduler_threads_waiting{for!~"held|probe"} > 0`:      nil,
		`scheduler_threads_waiting{for!~"held|suspend"} > 0`:                                              {"scheduler_threads_waiting{for=suspend}"},
		`scheduler_kept{state="held"} - scheduler_kept{state="lost"} offset 1h`:                           {"scheduler_kept{state=lost}"},
		`rate(scheduler_mesages[5m]) + scheduler_outcome_seconds + scheduler_messages{channel=~"smtp.*"}`: {"scheduler_mesages", "scheduler_outcome_seconds", "scheduler_messages{channel}"},
	} {
		if got := unknown(expr, all); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// rules is a file of alert rules; other keys are errors.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr         string
			For                 time.Duration
			Labels, Annotations map[string]string
		}
	}
}

func TestAlertRulesNameMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../packaging/prometheus/zsched.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file rules
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	all, alerts := exported(t), make(map[string]bool)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if err := errors.Join(
				check(rule.Alert != "" && !alerts[rule.Alert], "the name of the alert is missing or not unique"),
				check(rule.Expr != "", "the expression is missing"),
				check(rule.For > 0, "for is missing"),
				check(slices.Contains([]string{"warning", "critical"}, rule.Labels["severity"]), "the severity is neither warning nor critical"),
				check(strings.HasSuffix(rule.Annotations["summary"], "."), "the summary is missing or no sentence"),
			); err != nil {
				t.Errorf("alert %q: %v", rule.Alert, err)
			}
			if wrong := unknown(rule.Expr, all); wrong != nil {
				t.Errorf("alert %q names %q, which the scheduler does not export", rule.Alert, wrong)
			}
			alerts[rule.Alert] = true
		}
	}
	if len(alerts) == 0 {
		t.Error("no alerts")
	}
}

// check returns an error unless something holds.
func check(holds bool, otherwise string) error {
	if holds {
		return nil
	}
	return errors.New(otherwise)
}

// dashboard is what the test reads of a dashboard.
type dashboard struct {
	SchemaVersion int
	Templating    struct {
		List []struct{ Definition string }
	}
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
	}
}

func TestDashboardNamesMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../packaging/grafana/zsched.json")
	if err != nil {
		t.Fatal(err)
	}
	var file dashboard
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.SchemaVersion != 39 || len(file.Panels) == 0 {
		t.Errorf("schema version %d, %d panels", file.SchemaVersion, len(file.Panels))
	}
	all, ids := exported(t), make(map[int]string)
	for _, panel := range file.Panels {
		if ids[panel.ID] != "" || panel.Title == "" || len(panel.Targets) == 0 {
			t.Errorf("panel %d %q has no title, no expression or the number of another: %q", panel.ID, panel.Title, slices.Sorted(maps.Values(ids)))
		}
		ids[panel.ID] = panel.Title
		for _, target := range panel.Targets {
			if wrong := unknown(target.Expr, all); target.Expr == "" || wrong != nil {
				t.Errorf("panel %q: %q names %q, which the scheduler does not export", panel.Title, target.Expr, wrong)
			}
		}
	}
	for _, variable := range file.Templating.List {
		// label_values(metric, label)
		if metric, _, _ := strings.Cut(variable.Definition, ","); unknown(metric, all) != nil {
			t.Errorf("a variable is %q", variable.Definition)
		}
	}
}

// A router that does not run or is too slow stops all new mail, and the scheduler's own
// queue looks healthy then.
func TestRouterIsWatched(t *testing.T) {
	for _, name := range []string{"../../packaging/prometheus/zsched.rules.yml", "../../packaging/grafana/zsched.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range []string{"scheduler_kept", "scheduler_kept_oldest_seconds"} {
			found := false
			for _, of := range selector.FindAllStringSubmatch(strings.ReplaceAll(string(text), `\"`, `"`), -1) {
				found = found || of[1] == metric && strings.Contains(of[2], `state="router"`)
			}
			if !found {
				t.Errorf("%s does not show %s of the router", name, metric)
			}
		}
	}
}
