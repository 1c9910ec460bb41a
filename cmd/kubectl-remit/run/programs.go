package run

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs that the demonstration runs, by file name.
const (
	programControlPlane = "controlplane"
	programCatalog      = "catalog"
	programOLM          = "olm"
	programExtension    = "extension"
	programPackages     = "package-server"
	programSample       = "sample-operator"
	programRegistry     = "sample-registry"
)

// programs is the directory that contains the programs and this executable.
type programs string

func (d programs) path(name string) string { return filepath.Join(string(d), name) }

func (d programs) missing() []string {
	var out []string
	for _, name := range []string{programControlPlane, programCatalog, programOLM, programExtension, programPackages, programSample, programRegistry} {
		if _, err := os.Stat(d.path(name)); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// findPrograms returns the directory of the programs. In a source tree, it builds those that are missing.
func findPrograms(ctx context.Context, p *progress) (programs, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("determine the directory of the programs: %w", err)
	}
	dir := programs(filepath.Dir(self))
	missing := dir.missing()
	if len(missing) == 0 {
		return dir, nil
	}
	root := filepath.Dir(string(dir))
	if _, err := os.Stat(filepath.Join(root, "controlplane", "go.mod")); err != nil {
		return "", fmt.Errorf("%s not found next to %s: run \"make run\" in a source tree instead", strings.Join(missing, ", "), self)
	}
	return dir, p.step("Building "+strings.Join(missing, ", ")+" (the control plane takes minutes the first time)", func() error {
		build := exec.CommandContext(ctx, "make", "-C", root, "build", "controlplane")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("make build controlplane: %w\n%s", err, out)
		}
		return nil
	})
}
