package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// maxSize bounds the resident size of each of Remit's programs during a scene. The limit for a catalog is higher, the
// limit for a bundle lower.
const maxSize = 768 << 20

// Program is a running program of Remit.
type Program struct {
	// Name is the name of the executable: names.ServiceAccountCatalog or names.ServiceAccountOLM without its prefix.
	Name string
	PID  int
}

// Programs finds Remit's programs among the processes that the cluster has started.
func Programs(cluster *env.Cluster) ([]Program, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var out []Program
	for _, stat := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if err != nil || parent(pid) != cluster.PID {
			continue
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || filepath.Dir(exe) != cluster.Bin {
			continue // it was deleted
		}
		for _, name := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM} {
			if name == "remit-"+filepath.Base(exe) {
				out = append(out, Program{Name: filepath.Base(exe), PID: pid})
			}
		}
	}
	return out, nil
}

// parent returns 0 for a process that has ended.
func parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	out, _ := strconv.Atoi(fields[1])
	return out
}

// resetPeaks resets the peak sizes of the programs.
func resetPeaks(cluster *env.Cluster) error {
	programs, err := Programs(cluster)
	for _, p := range programs {
		// If a process has ended, or the kernel does not allow the reset, the peak is that of an earlier scene.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID), []byte("5"), 0)
	}
	return err
}

// tooLarge checks I6.
func (o *Oracle) tooLarge() ([]string, error) {
	programs, err := Programs(o.cluster)
	var out []string
	for _, p := range programs {
		size := p.Peak()
		o.Largest = max(o.Largest, size)
		if size > maxSize {
			out = append(out, fmt.Sprintf("%s was as large as %d MiB", p.Name, size>>20))
		}
	}
	return out, err
}

// Peak returns the largest resident size in the scene so far; 0 for a process that has ended.
func (p Program) Peak() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			return kib << 10
		}
	}
	return 0
}
