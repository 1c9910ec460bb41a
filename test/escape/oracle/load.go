package oracle

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remit-olm/remit/test/env/audit"
)

const (
	// maxCPU is the CPU time that one of Remit's programs may use in a scene. It is several times the usage in the most
	// expensive scene. A busy loop would exceed any limit.
	maxCPU = 60 * time.Second
	// MaxRequests is the number of requests that one identity may send in a scene. It is also several times the highest
	// number in any scene.
	MaxRequests = 2000
	// clockTick is the unit of CPU time in /proc on every Linux system that Go supports.
	clockTick = 10 * time.Millisecond
)

// spent returns the CPU time that Remit's programs have used so far, by process.
func (o *Oracle) spent() (map[Program]time.Duration, error) {
	programs, err := Programs(o.cluster)
	out := map[Program]time.Duration{}
	for _, p := range programs {
		out[p] = p.spent()
	}
	return out, err
}

// spent returns the CPU time of the process; 0 if it has exited.
func (p Program) spent() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	const user, system = 11, 12                   // indexes of utime and stime, counted from the state
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0
	}
	a, _ := strconv.Atoi(fields[user])
	b, _ := strconv.Atoi(fields[system])
	return time.Duration(a+b) * clockTick
}

// overworked reports the programs that have used more than maxCPU since the last check. now is the CPU time that each program
// has used so far.
func (o *Oracle) overworked(now map[Program]time.Duration) []string {
	var out []string
	for p, used := range used(now, o.worked) {
		o.Busiest = max(o.Busiest, used)
		if used > maxCPU {
			out = append(out, fmt.Sprintf("%s used %s of CPU time", p.Name, used))
		}
	}
	o.worked = now
	slices.Sort(out)
	return out
}

// used returns the CPU time that each program has used between then and now. For a program that started in between, it
// returns the total.
func used(now, then map[Program]time.Duration) map[Program]time.Duration {
	out := map[Program]time.Duration{}
	for p, total := range now {
		out[p] = total - then[p]
	}
	return out
}

// talkative reports the identities that have sent more than MaxRequests requests.
func (o *Oracle) talkative(requests []audit.Event) []string {
	counts := map[string]int{}
	for _, e := range requests {
		if byAccount(e) {
			counts[e.Actor()]++
		}
	}
	var out []string
	for who, n := range counts {
		o.Most = max(o.Most, n)
		if n > MaxRequests {
			out = append(out, fmt.Sprintf("%s sent %d requests", who, n))
		}
	}
	slices.Sort(out)
	return out
}
