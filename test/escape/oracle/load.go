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
	// maxCPU is the processor time that one of Remit's programs may use in a scene. It is several times what the most
	// expensive scene needs: a program that does not stop exceeds any number.
	maxCPU = 60 * time.Second
	// MaxRequests is the number of requests that one identity may send in a scene, chosen in the same way.
	MaxRequests = 2000
	// clockTick is the unit of processor time in /proc on every Linux that Go runs on.
	clockTick = 10 * time.Millisecond
)

// spent returns the processor time of Remit's programs so far, by process.
func (o *Oracle) spent() (map[Program]time.Duration, error) {
	programs, err := Programs(o.cluster)
	out := map[Program]time.Duration{}
	for _, p := range programs {
		out[p] = p.spent()
	}
	return out, err
}

// spent returns 0 for a process that has ended.
func (p Program) spent() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	const user, system = 11, 12                   // utime and stime, counted from the state on
	fields := strings.Fields(rest)
	if len(fields) <= system {
		return 0
	}
	a, _ := strconv.Atoi(fields[user])
	b, _ := strconv.Atoi(fields[system])
	return time.Duration(a+b) * clockTick
}

// overworked reports a program that has used more than its share of processor time since the last check.
func (o *Oracle) overworked() ([]string, error) {
	now, err := o.spent()
	if err != nil {
		return nil, err
	}
	var out []string
	for p, used := range used(now, o.worked) {
		o.Busiest = max(o.Busiest, used)
		if used > maxCPU {
			out = append(out, fmt.Sprintf("%s used %s of processor time", p.Name, used))
		}
	}
	o.worked = now
	slices.Sort(out)
	return out, nil
}

// used returns what each program has used since then; for a program that has started since, all of it.
func used(now, then map[Program]time.Duration) map[Program]time.Duration {
	out := map[Program]time.Duration{}
	for p, total := range now {
		out[p] = total - then[p]
	}
	return out
}

// talkative reports a ServiceAccount that has sent more requests than necessary.
func (o *Oracle) talkative(requests []audit.Event) []string {
	counts := map[string]int{}
	for _, e := range requests {
		if byAccount(e) {
			counts[e.User.Username]++
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
