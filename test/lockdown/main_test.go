package lockdown

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/manifests"
	pkgbundle "github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/operators/sample/bundle"
)

const (
	catalogImage = "catalogs.test/sample"
	// favored is the only namespace that may use the default account.
	favored = "lockdown-favored"
	// crdWriter is the ServiceAccount, in Remit's namespace, that writes CustomResourceDefinitions.
	crdWriter = "crd-writer"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	code := m.Run()
	for _, stop := range running {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "lockdown:", err)
			code = 1
		}
	}
	return code
}

// running contains the functions that stop the clusters that tests have started.
var running []func() error

// limited returns a cluster with a default account, as in profile compat, that only one namespace may use.
var limited = start(env.Options{Render: limitedCompat, Args: []manifests.Args{
	{Deployment: names.ServiceAccountCatalog, Args: []string{"--default-account-namespaces=" + favored}},
	{Deployment: names.ServiceAccountOLM, Args: []string{"--default-account-namespaces=" + favored}},
}})

// bounded returns a cluster without a default account, but with an account that writes CustomResourceDefinitions.
var bounded = start(env.Options{Args: []manifests.Args{
	{Deployment: names.ServiceAccountCatalog, Args: []string{"--crd-account=" + names.DefaultNamespace + "/" + crdWriter}},
}})

// limitedCompat returns the objects of profile compat. Their author checks take into account which namespaces may use
// the default account, as described in docs/tasks/install-remit.md.
func limitedCompat() ([]*unstructured.Unstructured, error) {
	objs, err := manifests.Render(manifests.ProfileCompat)
	if err != nil {
		return nil, err
	}
	for _, obj := range objs {
		authors := []string{"remit-author-check", "remit-csv-author-check"}
		if !slices.Contains(authors, obj.GetName()) || obj.GetKind() != "ValidatingAdmissionPolicy" {
			continue
		}
		variables, _, err := unstructured.NestedSlice(obj.Object, "spec", "variables")
		if err != nil {
			return nil, err
		}
		variables[1] = map[string]any{"name": "defaultAccount",
			"expression": "request.namespace in ['" + favored + "'] ? variables.installation + '/remit-default' : ''"}
		if err := unstructured.SetNestedSlice(obj.Object, variables, "spec", "variables"); err != nil {
			return nil, err
		}
	}
	return objs, nil
}

func start(o env.Options) func() (*env.Cluster, error) {
	return sync.OnceValues(func() (*env.Cluster, error) {
		dir, err := os.MkdirTemp("", "remit-lockdown-")
		if err != nil {
			return nil, err
		}
		catalog := filepath.Join(dir, "sample")
		if err := os.CopyFS(catalog, bundle.FS()); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		o.Catalogs = map[string]string{catalogImage: catalog}
		c, err := env.Start(context.Background(), o)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		running = append(running, func() error {
			_, err := c.CheckIdentities(context.Background())
			return errors.Join(err, c.Stop(), os.RemoveAll(dir))
		})
		return c, nil
	})
}

// subscribed creates a catalog with the sample operator and a Subscription to it in the tenant's namespace.
func subscribed(tn *env.Tenant) {
	tn.T.Helper()
	tn.Catalog("catalog", catalogImage)
	tn.Subscribe("catalog", bundle.Package, "")
}

func sampleBundle(t *testing.T) *pkgbundle.Bundle {
	t.Helper()
	b, err := env.ReadBundle(bundle.FS())
	require.NoError(t, err)
	return b
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}
