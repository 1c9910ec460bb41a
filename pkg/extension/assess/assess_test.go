package assess_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/corpus"
)

func extension() *olmv1.ClusterExtension {
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "uid"}}
	ext.Spec.Namespace = "ops"
	ext.Spec.Source.Catalog = &olmv1.CatalogFilter{PackageName: "p", Version: "1.x", Channels: []string{"stable"}}
	return ext
}

func TestTheSpecDeterminesTheRequest(t *testing.T) {
	ext := extension()
	ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "p.v1", Version: "1.0.0"}}
	got, err := assess.Request(ext)
	require.NoError(t, err)
	require.Equal(t, "a=b", got.Selector.String())
	got.Selector = nil
	require.Equal(t, resolve.Request{Package: "p", Versions: "1.x", Channels: []string{"stable"}, Policy: resolve.CatalogProvided,
		Installed: &resolve.Installed{Name: "p.v1", Version: "1.0.0"}}, got)

	ext.Spec.Source.Catalog.Selector.MatchLabels = map[string]string{"a b": "c"}
	_, err = assess.Request(ext)
	require.ErrorContains(t, err, "spec.source.catalog.selector: ")
	ext.Spec.Source.Catalog = nil
	_, err = assess.Request(ext)
	require.ErrorContains(t, err, "spec.source.catalog is required")
}

func TestTheSpecDeterminesTheIdentity(t *testing.T) {
	ext := extension()
	require.Equal(t, scoped.Identity{Extension: "demo"}, assess.Identity(ext))
	ext.Spec.ServiceAccount.Name = "acct"
	ext.Status.Identity = &olmv1.Identity{Kind: olmv1.IdentityKindUser, Name: "admin"}
	require.Equal(t, scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "ops", Name: "acct"}), assess.Identity(ext))
}

func TestExistingObjectsAreValidatedByDefault(t *testing.T) {
	ext := extension()
	require.True(t, assess.IsStrict(ext))
	ext.Spec.Install = &olmv1.ClusterExtensionInstallConfig{Preflight: &olmv1.PreflightConfig{
		CRDUpgradeSafety: &olmv1.CRDUpgradeSafetyPreflightConfig{Enforcement: olmv1.CRDUpgradeSafetyEnforcementNone}}}
	require.False(t, assess.IsStrict(ext))
}

// granted returns the permissions that manifests grant.
func granted(t *testing.T, manifests []byte) func(string) rbac.Permissions {
	t.Helper()
	out := map[string]rbac.Permissions{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(manifests)), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		role := &rbacv1.ClusterRole{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role))
		p := out[obj.GetNamespace()]
		p.Rules = append(p.Rules, role.Rules...)
		out[obj.GetNamespace()] = p
	}
	return func(namespace string) rbac.Permissions {
		p := out[namespace]
		p.Namespace = namespace
		p.Rules = append(p.Rules, out[rbac.ClusterScope].Rules...)
		return p
	}
}

func noRole(ref rbacv1.RoleRef, _ string) ([]rbacv1.PolicyRule, error) {
	return nil, apierrors.NewNotFound(rbacv1.Resource(ref.Kind), ref.Name)
}

// The permissions that are printed for a bundle of a real catalog are sufficient: a check with them
// reports nothing.
func TestTheRequiredPermissionsOfEveryRealBundleAreSufficient(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(corpus.Dir(t, "bundles"), "*", "*"))
	require.NoError(t, err)
	checked := 0
	for _, dir := range dirs {
		b, err := fbc.ReadBundle(t.Context(), os.DirFS(dir))
		require.NoError(t, err)
		ext := extension()
		ext.Spec.Source.Catalog.PackageName = filepath.Base(filepath.Dir(dir))
		r, err := render.Render(render.Input{Bundle: b, Owner: assess.Owner(ext, b.CSV.Name), Scopes: webhook.Builtin})
		if config := (*render.ConfigError)(nil); errors.As(err, &config) {
			ext.Spec.Config = &olmv1.ClusterExtensionConfig{Inline: &apiextensionsv1.JSON{Raw: []byte(`{"watchNamespace":"ops"}`)}}
			config, err := assess.Config(ext)
			require.NoError(t, err)
			if r, err = render.Render(render.Input{Bundle: b, Owner: assess.Owner(ext, b.CSV.Name), Config: config, Scopes: webhook.Builtin}); err != nil {
				continue
			}
		}
		if r == nil {
			continue // an unsupported install mode
		}
		steps := assess.Steps(r, assess.Owner(ext, b.CSV.Name))
		report, err := assess.Required(assess.Identity(ext), r, steps)
		require.NoError(t, err, dir)
		if len(report.Refused) > 0 {
			continue
		}
		needs, err := assess.Needs(r, steps, noRole)
		require.NoError(t, err, dir)
		again := preflight.Examine(assess.Identity(ext), needs, granted(t, report.Manifests()))
		require.Empty(t, again.Findings, dir)
		require.Contains(t, string(report.Manifests()), "  name: olm:clusterextension:demo\n")
		checked++
	}
	require.Greater(t, checked, len(dirs)/2)
}

func TestNamesWhatTheRemovalOfAnObjectRequires(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "ops", "name": "a"}}}
	require.Equal(t, preflight.Need{
		Namespace: "ops", Object: "ConfigMap ops/a", Cause: "remove ConfigMap ops/a, which version 2 does not contain",
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"a"}, Verbs: []string{"get", "delete"}}},
	}, assess.Removal(obj, "2"))
}
