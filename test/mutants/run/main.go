// Command run breaks the product by one mutant after the other and says which test noticed. It exits with 1 where a mutant
// survives, or could not be tried.
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
	"time"

	"github.com/remit-olm/remit/test/mutants"
)

func main() {
	pattern := flag.String("run", "", "only the mutants whose whole name matches")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// bench is where mutants are tried: in the repository, with what differs in a folder of its own.
type bench struct{ root, dir string }

func run(ctx context.Context, pattern string) error {
	name, err := regexp.Compile("^(" + pattern + ")$")
	if err != nil {
		return err
	}
	all := slices.DeleteFunc(mutants.All(), func(m mutants.Mutant) bool { return pattern != "" && !name.MatchString(m.Name) })
	if len(all) == 0 {
		return fmt.Errorf("no mutant is called %q", pattern)
	}
	b := bench{}
	if b.root, err = os.Getwd(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "remit-mutants-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	if err := b.baseline(ctx, all); err != nil {
		return err
	}
	failed := 0
	for _, m := range all {
		begun := time.Now()
		result := fmt.Sprintf("killed by %s", m.Killer)
		if err := b.try(ctx, m); err != nil {
			failed++
			result = err.Error()
		}
		fmt.Printf("%5.1fs  rule %d  %-55s %s\n", time.Since(begun).Seconds(), m.Rule, m.Name, result)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Printf("mutants: %d of %d killed\n", len(all)-failed, len(all))
	if failed > 0 {
		return fmt.Errorf("%d were not killed", failed)
	}
	return nil
}

// baseline sees that every killer passes without a mutant: one that fails anyway kills nothing.
func (b bench) baseline(ctx context.Context, all []mutants.Mutant) error {
	tests := map[string][]string{}
	for _, m := range all {
		if !slices.Contains(tests[m.Killer.Package], m.Killer.Test) {
			tests[m.Killer.Package] = append(tests[m.Killer.Package], m.Killer.Test)
		}
	}
	for pkg, names := range tests {
		killer := mutants.Killer{Package: pkg, Test: strings.Join(names, "|")}
		if out, err := b.test(ctx, killer); err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", killer, err, out)
		}
	}
	return nil
}

// try returns nil where the mutant is killed.
func (b bench) try(ctx context.Context, m mutants.Mutant) error {
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
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return fmt.Errorf("SURVIVED %s", m.Killer)
	case !strings.Contains(string(out), "--- FAIL: Test"):
		return fmt.Errorf("could not be tried: %w\n%s", err, out)
	}
	return nil
}

// overlay has the go command read the mutant's file in the place of the original.
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

// programs builds those that the mutant is in, beside those that it is not in.
func (b bench) programs(ctx context.Context, overlay string) (string, error) {
	bin := filepath.Join(b.dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return "", err
	}
	if out, err := b.command(ctx, "go", "build", "-overlay="+overlay, "-o", bin+"/", "./cmd/catalog", "./cmd/olm").CombinedOutput(); err != nil {
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
	c := b.command(ctx, "go", "test", "-vet=off", "-count=1", "-timeout=10m", "-run", pattern, pkg)
	c.Env = append(c.Environ(), env...)
	return c.CombinedOutput()
}

func (b bench) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = b.root
	return c
}
