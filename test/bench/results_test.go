package bench

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// documented is the page with the results of an earlier run.
	documented = "../../docs/benchmarks.md"
	// thisRun is the title of the column with the results, in the table of this run and in that of the page.
	thisRun = "this run"
)

// titles are the titles of the columns of the table of results.
var titles = []string{"metric", thisRun, "limit", "bare apply", "previous"}

// row is one line of the table of results. All benchmarks record their results in it, and the table is printed at the end of a run.
type row struct {
	// name describes what is measured, the unit and the number of objects. The previous result is looked up by it.
	name, result string
	// limit is the highest result that is acceptable, and bare is the result of applying the same objects without Remit in the same
	// run. Both are optional.
	limit, bare string
}

// record adds rows to the table of results. A row with the same name is replaced.
func record(rows ...row) {
	for _, r := range rows {
		shared.rows = append(slices.DeleteFunc(shared.rows, func(old row) bool { return old.name == r.name }), r)
	}
}

// resultTable returns a Markdown table of the results, for docs/benchmarks.md. Its last column contains the results in the table of
// an earlier run.
func resultTable(rows []row, previous map[string]string) string {
	var out strings.Builder
	line := func(cells ...string) { fmt.Fprintln(&out, "| "+strings.Join(cells, " | ")+" |") }
	line(titles...)
	line(slices.Repeat([]string{"---"}, len(titles))...)
	for _, r := range rows {
		line(r.name, r.result, r.limit, r.bare, previous[r.name])
	}
	return out.String()
}

// results returns the results in the tables of a page, by the names of their rows.
func results(page string) map[string]string {
	out := map[string]string{}
	column := -1
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			column = -1
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case column < 0:
			column = slices.Index(cells, thisRun)
		case column < len(cells):
			out[cells[0]] = cells[column]
		}
	}
	return out
}

// printResults prints the table of results, if there are any, and the conditions under which they were measured.
func printResults(loadBefore string) error {
	if len(shared.rows) == 0 {
		return nil
	}
	page, err := os.ReadFile(documented)
	if err != nil {
		return err
	}
	fmt.Printf("\nResults of %s, on %d processors, with a load average of %s before and %s after:\n\n", time.Now().Format("2 January 2006"), runtime.NumCPU(), loadBefore, load())
	fmt.Println(resultTable(shared.rows, results(string(page))))
	return nil
}

// load returns the machine's load average over one minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// inSeconds returns quantiles of the times, such as "0.33 / 1.5 s".
func inSeconds(times []time.Duration, qs ...float64) string {
	return inUnit(times, time.Second, "s", qs)
}

// inMillis returns quantiles of the times, such as "2.1 / 25 ms".
func inMillis(times []time.Duration, qs ...float64) string {
	return inUnit(times, time.Millisecond, "ms", qs)
}

func inUnit(times []time.Duration, unit time.Duration, name string, qs []float64) string {
	var out []string
	for _, q := range qs {
		n := float64(quantile(times, q)) / float64(unit)
		switch {
		case n < 1:
			out = append(out, fmt.Sprintf("%.2f", n))
		case n < 10:
			out = append(out, fmt.Sprintf("%.1f", n))
		default:
			out = append(out, fmt.Sprintf("%.0f", n))
		}
	}
	return strings.Join(out, " / ") + " " + name
}

func TestPreviousResultsAreReadFromTheTable(t *testing.T) {
	rows := []row{{name: "a", result: "1.0 / 2.0 s", limit: "≤ 3 s", bare: "0.5 s"}, {name: "b", result: "2"}}
	page := "# Benchmarks\n\n| other | result |\n| --- | --- |\n| a | 7 |\n\n" + resultTable(rows, nil) + "\n| c | 3 |\n"
	got := results(page)
	require.Equal(t, "1.0 / 2.0 s", got["a"])
	require.Equal(t, "2", got["b"])
	require.NotContains(t, got, "c")
	require.Contains(t, resultTable(rows, got), "| a | 1.0 / 2.0 s | ≤ 3 s | 0.5 s | 1.0 / 2.0 s |\n")
	content, err := os.ReadFile(documented)
	require.NoError(t, err)
	require.NotEmpty(t, results(string(content)))
}
