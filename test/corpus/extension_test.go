package corpus

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/test/env/corpus"
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

// TestReportsEveryVerbRemovedFromAClusterExtension is like TestReportsEveryRemovedVerb, for ClusterExtensions without a
// ServiceAccount.
func TestReportsEveryVerbRemovedFromAClusterExtension(t *testing.T) {
	mutateAll(t, extensionCases(t, usableModes))
}

// extensionCases returns the cases of ClusterExtensions: the sample, or all bundles with CORPUS=all.
func extensionCases(t *testing.T, modes func(*published) []operatorsv1alpha1.InstallModeType) []*testCase {
	t.Helper()
	var bundles []*published
	if os.Getenv("CORPUS") == "all" {
		bundles = everything(t)
	} else {
		bundles = readAll(t, corpus.Dir(t, "bundles"), extensionSample)
	}
	out := cases(t, bundles, modes)
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
