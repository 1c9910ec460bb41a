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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// census is the set of the objects in a cluster, or in some namespaces of it. It contains objects of all kinds that the API
// server can list, except those that only record what happened.
type census map[string]bool

// records are the resources whose objects only record what happened or are renewed periodically.
var records = []string{"events", "leases"}

// takeCensus lists the metadata of all objects: those in the namespaces, or of the whole cluster if there are none.
func (w *world) takeCensus(ctx context.Context, namespaces ...string) (census, error) {
	resources, err := w.listed(len(namespaces) > 0)
	if err != nil {
		return nil, err
	}
	c, err := metadata.NewForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	out := census{}
	for _, resource := range resources {
		for _, namespace := range namespaces {
			if err := out.add(ctx, c.Resource(resource).Namespace(namespace), resource.GroupResource()); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// listed returns the resources that the API server can list, except records.
func (w *world) listed(onlyNamespaced bool) (out []schema.GroupVersionResource, err error) {
	disco, err := discovery.NewDiscoveryClientForConfig(w.Config())
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // the API of an operator that is being removed
		return nil, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !slices.Contains(records, r.Name) && (r.Namespaced || !onlyNamespaced) {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

func (c census) add(ctx context.Context, from metadata.ResourceInterface, resource schema.GroupResource) error {
	list, err := from.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // the kind has been removed in the meantime
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	for _, obj := range list.Items {
		c[strings.TrimPrefix(obj.Namespace+"/", "/")+resource.String()+"/"+obj.Name] = true
	}
	return nil
}

// difference returns the objects in which two censuses differ, except those that the function ignores.
func (c census) difference(after census, ignore func(object string) bool) (out []string) {
	for object := range after {
		if !c[object] && !ignore(object) {
			out = append(out, "+"+object)
		}
	}
	for object := range c {
		if !after[object] && !ignore(object) {
			out = append(out, "-"+object)
		}
	}
	slices.Sort(out)
	return out
}

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
func (w *world) leavesNothing(ctx context.Context, c *testCase, before census) error {
	return w.until(ctx, func() error {
		after, err := w.takeCensus(ctx, c.namespaces()...)
		if err != nil {
			return err
		}
		left := before.difference(after, func(object string) bool {
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
func (w *world) checkDifference(t *testing.T, before census) {
	t.Helper()
	require.NoError(t, w.until(t.Context(), func() error {
		after, err := w.takeCensus(t.Context())
		if err != nil {
			return err
		}
		left := before.difference(after, func(object string) bool {
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

func TestDifferenceNamesWhatWasAddedAndRemoved(t *testing.T) {
	t.Parallel()
	before, after := census{"pods/a": true, "pods/b": true}, census{"pods/b": true, "pods/c": true, "pods/d": true}
	require.Equal(t, []string{"+pods/c", "-pods/a"}, before.difference(after, func(s string) bool { return s == "pods/d" }))
}
