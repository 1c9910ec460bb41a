package env

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// Suite describes the cluster that all tests of a package share.
type Suite struct {
	// Cluster is set before the tests run.
	Cluster **Cluster
	// Options returns the cluster's options. The directory is empty and is removed after the tests.
	Options func(dir string) (Options, error)
	// Parallel is the number of tests that run concurrently; "" means the number of cores. It can exceed the number of
	// cores, because the tests mostly wait.
	Parallel string
}

// Run starts the cluster, runs the package's tests like RunTests, and returns the exit code of the process.
func (s Suite) Run(m *testing.M) int {
	flag.Parse()
	code, err := s.run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "set up the tests:", err)
		return 1
	}
	return code
}

func (s Suite) run(m *testing.M) (code int, err error) {
	if s.Parallel != "" {
		if err := flag.Set("test.parallel", s.Parallel); err != nil {
			return 0, err
		}
	}
	dir, err := os.MkdirTemp("", "remit-test-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	options, err := s.Options(dir)
	if err != nil {
		return 0, err
	}
	if *s.Cluster, err = Start(context.Background(), options); err != nil {
		return 0, err
	}
	return (*s.Cluster).RunTests(m), nil
}
