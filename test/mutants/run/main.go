// Command run runs the tests against each selected mutant and reports which test detected it. It exits with code 1 if a mutant
// survives or cannot be tested.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/remit-olm/remit/test/mutants"
)

func main() {
	pattern := flag.String("run", "", "regular expression that must match the full names of the mutants to run")
	parallel := flag.Int("parallel", 4, "number of mutants to run at the same time; the tests mostly wait")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *pattern, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// Linking without debugging information takes half the time.
const linkOptions = "-ldflags=-s -w"

// bench contains the directories for testing mutants: root is the repository, and dir is for the changed files and programs.
type bench struct{ root, dir string }

func run(ctx context.Context, pattern string, parallel int) error {
	name, err := regexp.Compile("^(" + pattern + ")$")
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(mutants.All(), func(m mutants.Mutant) bool { return pattern != "" && !name.MatchString(m.Name) })
	if len(all) == 0 {
		return fmt.Errorf("no mutant matches %q", pattern)
	}
	b := bench{}
	if b.root, err = os.Getwd(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "remit-mutants-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	s, err := b.switchAll(ctx, all, parallel)
	if err != nil {
		return err
	}
	if err := b.baseline(ctx, s, all, parallel); err != nil {
		return err
	}
	return b.tryAll(ctx, s, all, parallel)
}

func (b bench) tryAll(ctx context.Context, s switched, all []mutants.Mutant, parallel int) error {
	var (
		tries  errgroup.Group
		killed atomic.Int64
	)
	tries.SetLimit(parallel)
	for _, m := range all {
		tries.Go(func() error {
			begun := time.Now()
			result := fmt.Sprintf("killed by %s", m.Killer)
			if err := b.try(ctx, s, m); err != nil {
				result = err.Error()
			} else {
				killed.Add(1)
			}
			fmt.Printf("%5.1fs  rule %d  %-55s %s\n", time.Since(begun).Seconds(), m.Rule, m.Name, result)
			return ctx.Err()
		})
	}
	if err := tries.Wait(); err != nil {
		return err
	}
	fmt.Printf("mutants: %d of %d killed\n", killed.Load(), len(all))
	if survivors := len(all) - int(killed.Load()); survivors > 0 {
		return fmt.Errorf("%d were not killed", survivors)
	}
	return nil
}

// baseline returns an error if a killer fails without a mutant, because a test that always fails detects nothing.
func (b bench) baseline(ctx context.Context, s switched, all []mutants.Mutant, parallel int) error {
	tests := map[string][]string{}
	for _, m := range all {
		if !slices.Contains(tests[m.Killer.Package], m.Killer.Test) {
			tests[m.Killer.Package] = append(tests[m.Killer.Package], m.Killer.Test)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for pkg, names := range tests {
		group.Go(func() error {
			killer := mutants.Killer{Package: pkg, Test: strings.Join(names, "|")}
			test := func() ([]byte, error) {
				if s.tests[pkg] != "" {
					return s.test(ctx, b, mutants.Mutant{Killer: killer})
				}
				return b.test(ctx, killer)
			}
			out, err := test()
			if err != nil { // as in the other suites, a test fails if it fails twice
				out, err = test()
			}
			if err != nil {
				return fmt.Errorf("%s fails without a mutant: %w\n%s", killer, err, out)
			}
			return nil
		})
	}
	return group.Wait()
}

// try returns nil if the mutant is killed, and an error if it survives or cannot be tested.
func (b bench) try(ctx context.Context, s switched, m mutants.Mutant) error {
	if s.numbers[m.Name] > 0 {
		out, err := s.test(ctx, b, m)
		return judge(ctx, m, out, err)
	}
	b.dir = filepath.Join(b.dir, m.Name)
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	overlay, err := b.overlay(m)
	if err != nil {
		return err
	}
	env := []string{}
	if m.Killer.IsRow() {
		bin, err := b.programs(ctx, overlay)
		if err != nil {
			return err
		}
		env = append(env, "REMIT_BIN="+bin)
	}
	out, err := b.test(ctx, m.Killer, append(env, "GOFLAGS=-overlay="+overlay)...)
	return judge(ctx, m, out, err)
}

// judge returns nil if the result of the killer means that the mutant is killed.
func judge(ctx context.Context, m mutants.Mutant, out []byte, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return fmt.Errorf("SURVIVED %s", m.Killer)
	case !strings.Contains(string(out), "--- FAIL: Test"):
		return fmt.Errorf("cannot be tested: %w\n%s", err, out)
	}
	return nil
}

// overlay writes an overlay file that makes the go command read the mutant's file instead of the original. It returns
// the path of the overlay file.
func (b bench) overlay(m mutants.Mutant) (string, error) {
	text, err := m.Apply(b.root)
	if err != nil {
		return "", err
	}
	mutated := filepath.Join(b.dir, "mutated"+filepath.Ext(m.File))
	if err := os.WriteFile(mutated, text, 0o600); err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, m.File): mutated}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, "overlay.json")
	return path, os.WriteFile(path, content, 0o600)
}

// programs builds the programs that can contain the mutant and returns a directory that also contains the unchanged ones.
func (b bench) programs(ctx context.Context, overlay string) (string, error) {
	bin := filepath.Join(b.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", err
	}
	build := b.command(ctx, "go", "build", linkOptions, "-overlay="+overlay, "-o", bin+"/", "./cmd/catalog", "./cmd/olm", "./cmd/extension")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	sample := filepath.Join(bin, "sample-operator")
	if _, err := os.Lstat(sample); err == nil {
		return bin, nil
	}
	return bin, os.Symlink(filepath.Join(b.root, "bin", "sample-operator"), sample)
}

func (b bench) test(ctx context.Context, k mutants.Killer, env ...string) ([]byte, error) {
	pkg, pattern := "./"+k.Package, "^("+k.Test+")$"
	if k.IsRow() {
		pkg, pattern = "./test/escape", "TestEscape/^("+k.Test+")_"
	}
	c := b.command(ctx, "go", "test", "-vet=off", linkOptions, "-count=1", "-timeout=20m", "-run", pattern, pkg)
	c.Env = append(c.Environ(), env...)
	return c.CombinedOutput()
}

func (b bench) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = b.root
	return c
}
