package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
)

// cluster is the one that all stories of this package share; each has a namespace of its own.
var cluster *env.Cluster

// parallel is how many stories run at once: they mostly wait, whatever the number of cores.
const parallel = "6"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "remit-e2e-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	catalogs, err := writeCatalogs(dir)
	if err != nil {
		return fail(err)
	}
	if cluster, err = env.Start(context.Background(), env.Options{Catalogs: catalogs}); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := checkAudit(); err != nil {
		code = fail(err)
	}
	if err := cluster.Stop(); err != nil {
		code = fail(err)
	}
	return code
}

// checkAudit holds all that was sent as Remit's own identities, in all stories, to the closed list of
// the security model.
func checkAudit() error {
	self := env.Self()
	counts, outside := map[string]int{}, map[string]bool{}
	_, err := cluster.Audited(context.Background(), func(e audit.Event) bool {
		if self.Is(e) {
			counts[e.User.Username+" "+kindOf(e)]++
			if !self.Allows(e) {
				outside[e.String()] = true
			}
		}
		return false
	})
	if err != nil {
		return err
	}
	for _, who := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("audit: %6d %s\n", counts[who], who)
	}
	if len(outside) > 0 {
		return fmt.Errorf("requests outside of what Remit's own identities may do: %q", slices.Sorted(maps.Keys(outside)))
	}
	if len(counts) == 0 {
		return fmt.Errorf("the audit log has no request of %q", self.Users)
	}
	return nil
}

func kindOf(e audit.Event) string {
	if e.IsWrite() {
		return "writes"
	}
	return "reads"
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}
