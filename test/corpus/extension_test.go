package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/controller/clusterextension"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/registry"
)

// extensionSample lists the bundles that are tested with ClusterExtensions by default.
var extensionSample = []string{
	"cert-manager/1.16.5",             // Roles in its own namespace and ClusterRoles
	"microcks/1.10.0",                 // no cluster permissions
	"prometheus/0.56.3",               // a typical bounded install
	"trustify-operator/0.1.0-alpha.9", // its own namespace only
	"universal-crossplane/1.5.1-up.1", // RBAC as bundle objects
	"vault-config-operator/0.8.52",    // 86 webhooks
}

// TestEveryBundleInstallsAsAClusterExtensionInOneRound is like TestEveryBundleInstallsInOneRoundWithExactlyWhatIsPrinted, for
// ClusterExtensions without a ServiceAccount.
func TestEveryBundleInstallsAsAClusterExtensionInOneRound(t *testing.T) {
	t.Parallel()
	all := extensionCases(t, widestMode)
	w := newExtensionWorld(t, all)
	table, took := w.tryAll(t, all)
	w.checkAudit(t, table)
	w.checkLeft(t)
	show(table, took)
}

// TestReportsEveryVerbRemovedFromAClusterExtension is like TestReportsEveryRemovedVerb, for ClusterExtensions without a
// ServiceAccount.
func TestReportsEveryVerbRemovedFromAClusterExtension(t *testing.T) {
	mutateAll(t, extensionCases(t, usableModes))
}

// extensionCases returns the cases of ClusterExtensions: the sample, or all bundles with CORPUS=all.
func extensionCases(t *testing.T, modes func(*published) []operatorsv1alpha1.InstallModeType) []*testCase {
	t.Helper()
	out := cases(t, "corpus", chosen(t, extensionSample), modes)
	for _, c := range out {
		c.extension = true
	}
	return out
}

// usableModes returns the modes that a bundle supports and a ClusterExtension can use.
func usableModes(p *published) []operatorsv1alpha1.InstallModeType {
	return slices.DeleteFunc(allModes(p), func(m operatorsv1alpha1.InstallModeType) bool {
		return m == operatorsv1alpha1.InstallModeTypeMultiNamespace
	})
}

// widestMode returns the last of usableModes, if any.
func widestMode(p *published) []operatorsv1alpha1.InstallModeType {
	all := usableModes(p)
	return all[max(0, len(all)-1):]
}

// newExtensionWorld starts a cluster with only the extension program, and pushes the catalog of each case.
func newExtensionWorld(t *testing.T, all []*testCase) *world {
	t.Helper()
	images := registry.New(t)
	w := startWorld(t, env.Options{
		Extensions: true, ExtensionArgs: []string{"--registry-plain-http=" + images.Host},
		Without: []string{names.ServiceAccountCatalog, names.ServiceAccountOLM},
	}, &olmv1.ClusterExtension{})
	w.refs = map[string]string{}
	for _, c := range all {
		cfg, err := fbc.FromBundles(t.Context(), os.DirFS(withoutDependencies(t, c.published)))
		require.NoError(t, err)
		var text bytes.Buffer
		require.NoError(t, declcfg.WriteJSON(*cfg, &text))
		content, err := registry.Catalog(fstest.MapFS{"catalog.json": {Data: text.Bytes()}})
		require.NoError(t, err)
		w.refs[c.published.name()], _, err = images.Push(c.published.name()+":v1", content)
		require.NoError(t, err)
	}
	return w
}

// clusterExtension returns the ClusterExtension of a case, which has the name of the case's namespace. It selects the
// ClusterCatalog of the same name.
func (c *testCase) clusterExtension() *olmv1.ClusterExtension {
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	ext.Spec.Namespace = c.namespace
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{
		PackageName: c.pkg, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: c.namespace}},
	}}
	if len(c.targets) > 0 {
		inline, _ := json.Marshal(map[string]string{"watchNamespace": c.targets[0]}) // strings can always be encoded
		ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: inline}}
	}
	return ext
}

func (c *testCase) clusterCatalog(ref string) *olmv1.ClusterCatalog {
	k := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	k.Spec.Source = olmv1.ClusterCatalogSource{Type: olmv1.CatalogSourceTypeImage, Image: &olmv1.ImageSource{Ref: ref}}
	return k
}

// extensionArgs returns the arguments of kubectl remit rbac.
func (c *testCase) extensionArgs() []string {
	args := []string{"clusterextension", c.namespace, "--package=" + c.pkg, "--namespace=" + c.namespace, "--catalog=" + c.dir, "--with-account"}
	if len(c.targets) > 0 {
		args = append(args, "--watch-namespace="+c.targets[0])
	}
	return args
}

// rendered returns the objects of the ClusterExtension before its identity has permissions.
func (c *testCase) rendered() (*render.Rendered, []step.Step, error) {
	ext := c.clusterExtension()
	config, err := assess.Config(ext)
	if err != nil {
		return nil, nil, err
	}
	owner := assess.Owner(ext, c.CSV.Name)
	r, err := render.Render(render.Input{
		Bundle: c.Bundle, Owner: owner, Config: config, Spared: []string{names.DefaultNamespace}, Scopes: webhook.Builtin,
		Holds: func(rbacv1.PolicyRule) bool { return false },
	})
	if err != nil {
		return nil, nil, err
	}
	return r, assess.Steps(r, owner), nil
}

// extend creates the ClusterCatalog and the ClusterExtension.
func (w *world) extend(ctx context.Context, c *testCase) error {
	if err := w.Client.Create(ctx, c.clusterCatalog(w.refs[c.published.name()])); err != nil {
		return err
	}
	return w.Client.Create(ctx, c.clusterExtension())
}

// observeExtension remembers the message of a ClusterExtension whose identity is missing permissions.
func (w *world) observeExtension(ext *olmv1.ClusterExtension) {
	c := meta.FindStatusCondition(ext.Status.Conditions, olmv1.TypeAuthorized)
	if c != nil && c.Status == metav1.ConditionFalse {
		w.block(ext.Spec.Namespace, c.Reason+": "+c.Message)
	}
}

// extended returns nil if the ClusterExtension is installed and available.
func (w *world) extended(ctx context.Context, c *testCase) error {
	ext := &olmv1.ClusterExtension{}
	if err := w.cache.Get(ctx, client.ObjectKey{Name: c.namespace}, ext); err != nil {
		return err
	}
	for _, kind := range []string{olmv1.TypeProgressing, olmv1.TypeInstalled, olmv1.TypeAvailable} {
		got := meta.FindStatusCondition(ext.Status.Conditions, kind)
		switch {
		case got == nil:
			return fmt.Errorf("the ClusterExtension has no condition %s", kind)
		case got.Reason == olmv1.ReasonBlocked || got.Reason == olmv1.ReasonInvalidConfiguration:
			return final{fmt.Errorf("%s: %s", got.Reason, got.Message)}
		case got.Reason != olmv1.ReasonSucceeded:
			return fmt.Errorf("%s is %s, %s: %s", kind, got.Status, got.Reason, got.Message)
		}
	}
	return nil
}

// reportedByExtension returns the grant in the report about a ClusterExtension.
func (w *world) reportedByExtension(ctx context.Context, c *testCase, m mutation) (string, error) {
	ext := &olmv1.ClusterExtension{}
	if err := w.cache.Get(ctx, client.ObjectKey{Name: c.namespace}, ext); err != nil {
		return "", err
	}
	if ext.Status.Install != nil {
		return "", final{fmt.Errorf("installed without %s", m)}
	}
	if !meta.IsStatusConditionFalse(ext.Status.Conditions, olmv1.TypeAuthorized) {
		return "", fmt.Errorf("the ClusterExtension reports no missing permissions: %+v", ext.Status.Conditions)
	}
	report := &corev1.ConfigMap{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Home, Name: clusterextension.ReportName(c.namespace)}, report)
	return report.Data[preflight.FileGrant], err
}
