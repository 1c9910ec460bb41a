package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// maxSize is the maximum resident size of each of Remit's programs during a scene. Remit's own limit for a catalog is
// higher, and its limit for a bundle is lower.
const maxSize = 768 << 20

// Program is a running program of Remit.
type Program struct {
	// Name is the name of the executable: the name of the program's ServiceAccount without the prefix.
	Name string
	PID  int
}

// Programs returns Remit's programs among the processes that the cluster has started.
func Programs(cluster *env.Cluster) ([]Program, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = proc.Close() }()
	files, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []Program
	for _, name := range files {
		pid, err := strconv.Atoi(name)
		if err != nil || parent(pid) != cluster.PID {
			continue
		}
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil || filepath.Dir(exe) != cluster.Bin {
			continue // the Pod was deleted
		}
		for _, name := range []string{names.ServiceAccountCatalog, names.ServiceAccountOLM, names.ServiceAccountExtension, names.ServiceAccountPackageServer} {
			if name == "remit-"+filepath.Base(exe) {
				out = append(out, Program{Name: filepath.Base(exe), PID: pid})
			}
		}
	}
	return out, nil
}

// parent returns the ID of a process's parent; 0 for a process that has exited.
func parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	out, _ := strconv.Atoi(fields[1])
	return out
}

// resetPeaks resets the peak resident memory that the kernel records for the programs.
func resetPeaks(programs map[Program]time.Duration) {
	for p := range programs {
		// If a process has exited, or the kernel does not allow the reset, the peak of an earlier scene remains.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID), []byte("5"), 0)
	}
}

// tooLarge checks I6 for the programs.
func (o *Oracle) tooLarge(programs map[Program]time.Duration) []string {
	var out []string
	for p := range programs {
		size := p.Peak()
		o.Largest = max(o.Largest, size)
		if size > maxSize {
			out = append(out, fmt.Sprintf("%s used up to %d MiB", p.Name, size>>20))
		}
	}
	slices.Sort(out)
	return out
}

// Peak returns the largest resident size in the scene so far; 0 for a process that has exited.
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
