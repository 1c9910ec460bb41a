package clusterextension

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/step"
)

// A missing entry in the inventory does not keep a webhook, and an upgrade that waits does not report webhooks that may not exist.
func TestWebhooksAreBoundedWithoutAnInventory(t *testing.T) {
	t.Parallel()
	installed := olmv1.BundleMetadata{Name: "op.v1", Version: "1.0.0"}
	listed := olmv1.InventoryObject{Group: admissionregistrationv1.GroupName, Kind: "MutatingWebhookConfiguration", Name: "old"}
	const old, current = "MutatingWebhookConfiguration old", "ValidatingWebhookConfiguration v"
	for name, row := range map[string]struct {
		install   *olmv1.ClusterExtensionInstallStatus
		inventory []olmv1.InventoryObject
		want      map[string]bool
	}{
		"nothing is installed yet":    {nil, nil, map[string]bool{}},
		"no inventory":                {&olmv1.ClusterExtensionInstallStatus{Bundle: installed}, nil, map[string]bool{current: true}},
		"an inventory":                {&olmv1.ClusterExtensionInstallStatus{Bundle: installed}, []olmv1.InventoryObject{listed}, map[string]bool{old: true, current: true}},
		"another version is rendered": {&olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Version: "0.9.0"}}, nil, map[string]bool{current: false}},
		"a webhook in both": {
			&olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Version: "0.9.0"}},
			[]olmv1.InventoryObject{{Group: listed.Group, Kind: "ValidatingWebhookConfiguration", Name: "v"}}, map[string]bool{current: true},
		},
	} {
		ext := extension("a")
		ext.Status.Install, ext.Status.Inventory = row.install, append(row.inventory, olmv1.InventoryObject{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "op"})
		s := givenUnit(t, interceptor.Funcs{}).begin(ext)
		s.resolved.Bundle = &catalog.Bundle{Name: installed.Name, Version: installed.Version}
		for _, gvk := range []schema.GroupVersionKind{
			admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), rbacv1.SchemeGroupVersion.WithKind("ClusterRole"),
		} {
			s.steps = append(s.steps, step.Step{Object: apply.Reference(gvk, "", "v"), Owner: s.owner})
		}
		got := map[string]bool{}
		for _, h := range s.hooksToNarrow() {
			got[apply.Describe(h.Unstructured)] = h.isInstalled
		}
		require.Equal(t, row.want, got, name)
	}
}
