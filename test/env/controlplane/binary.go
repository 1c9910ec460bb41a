package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// errNoBinary reports that the control plane has not been built.
var errNoBinary = errors.New("control plane binary not found: run make controlplane")

// findBinary returns the path of the control plane's executable. If given is empty, it uses the defaults of
// Options.Binary.
func findBinary(given string) (string, error) {
	if given == "" {
		given = os.Getenv("CONTROLPLANE")
	}
	if given == "" {
		root, err := repositoryRoot()
		if err != nil {
			return "", err
		}
		given = filepath.Join(root, "bin", "controlplane")
	}
	path, err := exec.LookPath(given)
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoBinary, err)
	}
	return filepath.Abs(path)
}

// repositoryRoot returns the closest parent directory that contains the control plane's sources. Looking for go.mod
// would also find nested modules.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%w in the repository, or set CONTROLPLANE", errNoBinary)
		}
		dir = parent
	}
}
