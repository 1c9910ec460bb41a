package bench

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
)

const (
	// clockTick is the unit of CPU time in /proc on every Linux system that Go supports.
	clockTick = 10 * time.Millisecond
	// controlPlane, benchmark, others and idle are names in a usage, in addition to those of Remit's programs. The control plane is one
	// process, which contains the API server, etcd, the controller manager, the scheduler and the node.
	controlPlane, benchmark, others, idle = "control plane", "benchmark", "other processes", "idle"
)

// programs returns the process IDs of Remit's programs, by the names of their executables.
func programs(tb testing.TB, c *env.Cluster) map[string]int {
	tb.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(tb, err)
	out := map[string]int{}
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || filepath.Dir(exe) != c.Bin {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		require.NoError(tb, err)
		if field(pid, "status", "PPid:") == c.PID { // otherwise it is another cluster's
			out[filepath.Base(exe)] = pid
		}
	}
	return out
}

// field returns the number in a line of a file of a process in /proc; 0 if there is no such line, or no such process.
func field(pid int, file, name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(words[0])
	return n
}

// memory is the resident memory of a program in KiB: the total, the part that is not mapped from files, the part that is, the
// proportional set size, which counts only a program's share of pages that several programs map, and the highest total so far.
type memory struct{ total, anonymous, mapped, proportional, peak int }

func memoryOf(pid int) memory {
	return memory{
		total: field(pid, "status", "VmRSS:"), anonymous: field(pid, "status", "RssAnon:"), mapped: field(pid, "status", "RssFile:"),
		proportional: field(pid, "smaps_rollup", "Pss:"), peak: field(pid, "status", "VmHWM:"),
	}
}

func (m *memory) add(other memory) {
	m.total += other.total
	m.anonymous += other.anonymous
	m.mapped += other.mapped
	m.proportional += other.proportional
	m.peak += other.peak
}

func (m memory) String() string {
	return fmt.Sprintf("%4d MiB: %4d anonymous, %4d mapped from files; PSS %4d MiB; peak %4d MiB", m.total>>10, m.anonymous>>10, m.mapped>>10, m.proportional>>10, m.peak>>10)
}

// parts returns the total, the part that is not mapped from files, and the part that is.
func (m memory) parts() string {
	return fmt.Sprintf("%d / %d / %d MiB", m.total>>10, m.anonymous>>10, m.mapped>>10)
}

// resident returns the memory of each of Remit's programs.
func resident(tb testing.TB, c *env.Cluster) map[string]memory {
	tb.Helper()
	out := map[string]memory{}
	for program, pid := range programs(tb, c) {
		out[program] = memoryOf(pid)
	}
	return out
}

func memoryTable(all map[string]memory) []string {
	var out []string
	var sum memory
	for _, program := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%-16s %s", program, all[program]))
		sum.add(all[program])
	}
	return append(out, fmt.Sprintf("%-16s %s", "total", sum))
}

// usage is CPU time by process.
type usage map[string]time.Duration

// spent returns the CPU time that Remit's programs, the control plane, the benchmark and all other processes have used so far, and
// the time for which the processors were idle.
func spent(tb testing.TB, c *env.Cluster) usage {
	tb.Helper()
	out := usage{controlPlane: cpuTime(tb, c.PID), benchmark: cpuTime(tb, os.Getpid())}
	for program, pid := range programs(tb, c) {
		out[program] = cpuTime(tb, pid)
	}
	busy, unused := machine(tb)
	for _, used := range out {
		busy -= used
	}
	out[others], out[idle] = busy, unused
	return out
}

// cpuTime returns the CPU time that a process has used so far.
func cpuTime(tb testing.TB, pid int) time.Duration {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(tb, err)
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the process may contain spaces
	const user, system = 11, 12                   // indexes of utime and stime, counted from the state
	return ticks(tb, strings.Fields(rest)[user], strings.Fields(rest)[system])
}

// machine returns the time that all processors have been busy and idle so far.
func machine(tb testing.TB) (busy, unused time.Duration) {
	tb.Helper()
	text, err := os.ReadFile("/proc/stat")
	require.NoError(tb, err)
	first, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(first) // cpu user nice system idle iowait irq softirq
	return ticks(tb, f[1], f[2], f[3], f[6], f[7]), ticks(tb, f[4], f[5])
}

func ticks(tb testing.TB, counts ...string) (out time.Duration) {
	tb.Helper()
	for _, count := range counts {
		n, err := strconv.Atoi(count)
		require.NoError(tb, err)
		out += time.Duration(n) * clockTick
	}
	return out
}

// since returns the CPU time that was used after an earlier point in time. For a program that was restarted in between, it returns
// that of the new process.
func (u usage) since(before usage) usage {
	out := usage{}
	for process, now := range u {
		out[process] = now
		if was := before[process]; was <= now {
			out[process] -= was
		}
	}
	return out
}

// remit returns the CPU time of Remit's programs.
func (u usage) remit() (out time.Duration) {
	for process, used := range u {
		if !slices.Contains([]string{controlPlane, benchmark, others, idle}, process) {
			out += used
		}
	}
	return out
}

// summary returns the seconds of Remit's programs, the control plane, the benchmark and other processes, and the idle time.
func (u usage) summary() string {
	return fmt.Sprintf("%.1f / %.1f / %.1f / %.1f / %.1f s", u.remit().Seconds(), u[controlPlane].Seconds(), u[benchmark].Seconds(), u[others].Seconds(), u[idle].Seconds())
}

// table lists the CPU time of each process, and its share of the time of all processors.
func (u usage) table() []string {
	var all time.Duration
	for _, used := range u {
		all += used
	}
	out := []string{fmt.Sprintf("%-16s %7.1f s", fmt.Sprintf("%d processors", runtime.NumCPU()), all.Seconds())}
	for _, process := range slices.Sorted(maps.Keys(u)) {
		out = append(out, fmt.Sprintf("%-16s %7.1f s %4.0f%%", process, u[process].Seconds(), 100*float64(u[process])/float64(max(all, 1))))
	}
	return out
}
