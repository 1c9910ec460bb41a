package corpus

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/test/env"
)

// namespaces returns the namespaces of a case.
func (c *testCase) namespaces() []string {
	set := map[string]bool{c.namespace: true}
	for _, target := range c.targets {
		set[target] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// users are the objects that the cluster creates in each namespace, and those that the case's user creates in addition to
// the Subscription.
var users = []string{"configmaps/kube-root-ca.crt", "serviceaccounts/default", "catalogsources.operators.coreos.com/catalog", "operatorgroups.operators.coreos.com/group"}

// leavesNothing waits until the namespaces of a case contain what they contained before the Subscription was created.
func (w *world) leavesNothing(ctx context.Context, c *testCase, before env.Census) error {
	return w.until(ctx, func() error {
		after, err := w.Census(ctx, c.namespaces()...)
		if err != nil {
			return err
		}
		left := before.Difference(after, func(object string) bool {
			return slices.ContainsFunc(users, func(s string) bool { return strings.HasSuffix(object, "/"+s) })
		})
		if len(left) > 0 {
			return fmt.Errorf("uninstalling leaves a difference: %q", left)
		}
		return nil
	})
}

// uninstallBy runs "kubectl remit uninstall --crds" for the Subscription of a case.
func (w *world) uninstallBy(ctx context.Context, c *testCase) error {
	cmd := exec.CommandContext(ctx, filepath.Join(w.Bin, "kubectl-remit"), "uninstall", "subscription", "-n", c.namespace, "--crds",
		"--kubeconfig="+w.Kubeconfig, "--timeout="+w.patience.String())
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl remit uninstall: %w: %s", err, text)
	}
	for _, name := range c.ownCRDs() {
		if !strings.Contains(string(text), "customresourcedefinition.apiextensions.k8s.io/"+name+" deleted\n") {
			return fmt.Errorf("kubectl remit uninstall --crds did not delete CustomResourceDefinition %s: %s", name, text)
		}
	}
	return nil
}

// checkDifference fails the test if the cluster, outside the namespaces of the cases, differs from before the first case.
func (w *world) checkDifference(t *testing.T, before env.Census) {
	t.Helper()
	require.NoError(t, w.until(t.Context(), func() error {
		after, err := w.Census(t.Context())
		if err != nil {
			return err
		}
		left := before.Difference(after, func(object string) bool {
			namespace, name, _ := strings.Cut(object, "/")
			inCase := !before["namespaces/"+namespace] && strings.Contains(name, "/")
			return inCase || namespace == "namespaces" // clear keeps the namespaces of the cases
		})
		if len(left) > 0 {
			return fmt.Errorf("the cluster differs from before the first case: %q", left)
		}
		return nil
	}))
	fmt.Printf("corpus: %d objects of all kinds before the first case, no difference after the last\n", len(before))
}
