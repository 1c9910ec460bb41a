package corpus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/uninstall"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/corpus"
)

// censusOf lists the objects in the namespaces of a case, and all other objects with the label of the case's lineage.
func (w *world) censusOf(ctx context.Context, c *testCase) (env.Census, error) {
	return w.Census(ctx, env.Selection{Group: func(group string) bool { return !w.foreign(c, group) }, Object: c.has})
}

// foreign reports whether only other cases have CustomResourceDefinitions in an API group. There can be many, and listing their
// objects, which are never in this case's namespaces, would take much of the time.
func (w *world) foreign(c *testCase, group string) bool {
	return w.groups[group] && !slices.ContainsFunc(c.crds(), func(crd string) bool { return groupOf(crd) == group })
}

// has reports whether an object is in one of the case's namespaces or has the label of the case's lineage.
func (c *testCase) has(obj metav1.Object) bool {
	return slices.Contains(c.namespaces(), obj.GetNamespace()) || ownerutil.Lineage{Package: c.pkg, Namespace: c.namespace}.Marks(obj)
}

// namespaces returns the namespaces of a case.
func (c *testCase) namespaces() []string {
	set := map[string]bool{c.namespace: true}
	for _, target := range c.targets {
		set[target] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// unmanaged are the objects in a namespace that Remit does not create: those that the cluster creates in each
// namespace, and those that the case's user creates in addition to the Subscription.
var unmanaged = []string{"configmaps/kube-root-ca.crt", "serviceaccounts/default", "catalogsources.operators.coreos.com/catalog", "operatorgroups.operators.coreos.com/group"}

// removal is a way of uninstalling an operator, and determines what may remain.
type removal string

const (
	keepingCRDs removal = "kubectl remit uninstall"
	withCRDs    removal = "kubectl remit uninstall --crds"
)

// removals returns the ways in which a bundle is uninstalled in the nth of its modes: without --crds in the first mode, and with
// --crds in the others. A bundle with a single mode is installed and uninstalled twice.
func removals(n, modes int) []removal {
	switch {
	case modes == 1:
		return []removal{keepingCRDs, withCRDs}
	case n == 0:
		return []removal{keepingCRDs}
	default:
		return []removal{withCRDs}
	}
}

// minOperators is the number of packages that must have been uninstalled both with and without --crds.
const minOperators = 20

// checkRemovals fails the test if too few packages were uninstalled in both ways, unless CORPUS_RUN selects cases or the corpus
// does not exist.
func checkRemovals(t *testing.T, table []outcome) {
	t.Helper()
	ways := map[string]map[removal]bool{}
	for _, o := range table {
		for _, r := range o.removals {
			if ways[o.pkg] == nil {
				ways[o.pkg] = map[removal]bool{}
			}
			ways[o.pkg][r] = ways[o.pkg][r] || o.verdict == succeeded
		}
	}
	n := 0
	for _, done := range ways {
		if done[keepingCRDs] && done[withCRDs] {
			n++
		}
	}
	fmt.Printf("corpus: %d operators were uninstalled with and without --crds\n", n)
	if _, err := corpus.Find("bundles"); err == nil && os.Getenv("CORPUS_RUN") == "" {
		require.GreaterOrEqual(t, n, minOperators)
	}
}

// uninstall uninstalls the operator of a case with the command, as a user would. After that, the case must have the
// same objects as before the install (see has), except that CustomResourceDefinitions are kept without --crds.
func (w *world) uninstall(ctx context.Context, c *testCase, r removal, before env.Census, outside []client.Object) error {
	if err := w.run(ctx, c, r); err != nil {
		return err
	}
	// These waits cost the API server less than the census.
	if err := errors.Join(w.until(ctx, func() error { return w.forgotten(ctx, c) }), w.waitDeleted(ctx, outside...)); err != nil {
		return err
	}
	return w.until(ctx, func() error {
		after, err := w.censusOf(ctx, c)
		if err != nil {
			return err
		}
		left := before.Difference(after, func(object string) bool {
			return slices.ContainsFunc(unmanaged, func(s string) bool { return strings.HasSuffix(object, "/"+s) })
		})
		if want := c.kept(r); !slices.Equal(left, want) {
			return fmt.Errorf("the difference to before the install is %q, not %q", left, want)
		}
		return nil
	})
}

// run runs the command in this process. It must report each of the bundle's CustomResourceDefinitions as deleted or as kept.
func (w *world) run(ctx context.Context, c *testCase, r removal) error {
	cmd := uninstall.NewCommand()
	var text bytes.Buffer
	cmd.SetOut(&text)
	cmd.SetErr(&text)
	args := append(strings.Fields(string(r))[3:], "subscription", "-n", c.namespace, "--kubeconfig="+w.Kubeconfig, "--timeout="+w.patience.String())
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(ctx); err != nil {
		return fmt.Errorf("%w: %s", err, &text)
	}
	format := "customresourcedefinition.apiextensions.k8s.io/%s deleted\n"
	if r == keepingCRDs {
		format = "note: CustomResourceDefinition %s is kept"
	}
	for _, name := range c.ownCRDs() {
		if !strings.Contains(text.String(), fmt.Sprintf(format, name)) {
			return fmt.Errorf("the output has no line for CustomResourceDefinition %s: %s", name, &text)
		}
	}
	return nil
}

// kept returns the expected difference after an operator was uninstalled, in the order of difference.
func (c *testCase) kept(r removal) (out []string) {
	if r == withCRDs {
		return nil
	}
	for _, name := range c.ownCRDs() {
		out = append(out, "+customresourcedefinitions.apiextensions.k8s.io/"+name)
	}
	slices.Sort(out)
	return out
}

// forgotten returns an error while the cache contains objects of a deleted install, because they could be mistaken for
// objects of the next install.
func (w *world) forgotten(ctx context.Context, c *testCase) error {
	for _, list := range []client.ObjectList{
		&operatorsv1alpha1.SubscriptionList{}, &operatorsv1alpha1.InstallPlanList{}, &operatorsv1alpha1.ClusterServiceVersionList{},
	} {
		if err := w.cache.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		if meta.LenList(list) > 0 {
			return fmt.Errorf("the cache still contains a deleted %T", list)
		}
	}
	return nil
}

// checkDifference fails the test if the cluster, outside the namespaces of the cases, differs from before the first case.
func (w *world) checkDifference(t *testing.T, before env.Census) {
	t.Helper()
	require.NoError(t, w.until(t.Context(), func() error {
		after, err := w.Census(t.Context(), env.Selection{})
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
