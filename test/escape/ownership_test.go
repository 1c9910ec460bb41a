package escape

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/escape/oracle"
)

func ownership() []row {
	return []row{
		{number: "85", title: "a manifest that is owned by a Namespace, a Node and another CSV", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: ConfigMap, metadata: {name: owned, finalizers: [example.com/stay],
			 ownerReferences: [{apiVersion: v1, kind: Namespace, name: kube-system, uid: a, blockOwnerDeletion: true, controller: true},
			  {apiVersion: v1, kind: Node, name: remit-node, uid: b}, {apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, name: other, uid: c}]}}`))
			csv := s.Succeeded(probeCSV)
			s.Complete()
			cm := &corev1.ConfigMap{}
			require.NoError(s.T, s.Get("owned", cm))
			require.Empty(s.T, cm.Finalizers)
			require.Len(s.T, cm.OwnerReferences, 1)
			ref := cm.OwnerReferences[0]
			require.Equal(s.T, csv.UID, ref.UID)
			require.False(s.T, *ref.BlockOwnerDeletion)
			require.False(s.T, *ref.Controller)
		}},
		{number: "85a", title: "a CSV with its own finalizers and owners", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv().Set([]any{"example.com/stay"}, "metadata", "finalizers").Set([]any{map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "uid": "a"}}, "metadata", "ownerReferences")))
			csv := s.Succeeded(probeCSV)
			require.Empty(s.T, csv.Finalizers)
			require.Empty(s.T, csv.OwnerReferences)
		}},
		{number: "86", title: "foreign objects with an operator's marks, when the operator is removed", holds: removesAnything(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.Group == rbacv1.GroupName && c.Namespace == "" && c.How == "created"
			})
			s.install(bundleOf(csv().ClusterPermissions(csvReadsPods())))
			s.Succeeded(probeCSV)
			s.allow(nil)
			foreign := s.markedAsOurs()
			s.uninstall()
			s.Eventually(func(c *assert.CollectT) { assert.Error(c, s.Get(probeCSV, &operatorsv1alpha1.ClusterServiceVersion{})) })
			for _, obj := range foreign {
				require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(obj), obj), "%T %s", obj, obj.GetName())
			}
		}},
		{number: "86a", title: "foreign objects with an operator's marks, while the operator is installed", holds: removesAnything(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			foreign := s.markedAsOurs()
			s.Eventually(func(c *assert.CollectT) { // trigger a reconcile while the objects exist
				assert.NoError(c, s.touch(probeCSV))
			})
			s.settle()
			for _, obj := range foreign {
				require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(obj), obj), "%T %s", obj, obj.GetName())
			}
		}},
		{number: "88", title: "an object that is replaced between the read and the write", holds: p0(), play: func(s *scene) {
			owner := ownerutil.Owner{Lineage: s.lineage(), CSV: probeCSV, Proofs: s.proofs()}
			desired := s.configMapOf(owner, "raced")
			account := s.bearing(s.Namespace, accountName)
			_, _, err := apply.Ensure(s.T.Context(), account, desired, owner)
			require.NoError(s.T, err)
			require.NoError(s.T, unstructured.SetNestedField(desired.Object, "more", "data", "key"))
			theirs := s.configMapOf(owner, "raced") // the install must not change it, although it has the install's marks
			require.NoError(s.T, unstructured.SetNestedField(theirs.Object, "theirs", "data", "key"))
			_, _, err = apply.Ensure(s.T.Context(), s.replacing(account, theirs), desired, owner)
			require.Error(s.T, err)
			after := &corev1.ConfigMap{}
			require.NoError(s.T, s.Get("raced", after))
			require.Equal(s.T, "theirs", after.Data["key"])
			require.Equal(s.T, theirs.GetUID(), after.UID)
		}},
		{number: "88a", title: "an object that is created between the read and the write", holds: p0(), play: func(s *scene) {
			owner := ownerutil.Owner{Lineage: s.lineage(), CSV: probeCSV, Proofs: s.proofs()}
			theirs := s.configMapOf(owner, "raced")
			theirs.SetLabels(nil)
			require.NoError(s.T, unstructured.SetNestedField(theirs.Object, "theirs", "data", "key"))
			_, _, err := apply.Ensure(s.T.Context(), s.replacing(s.bearing(s.Namespace, accountName), theirs), s.configMapOf(owner, "raced"), owner)
			require.True(s.T, apply.IsCollision(err), "%v", err)
			after := &corev1.ConfigMap{}
			require.NoError(s.T, s.Get("raced", after))
			require.Equal(s.T, "theirs", after.Data["key"])
		}},
	}
}

// removesAnything returns profile P3 with permission to delete objects that others have created in the cluster.
func removesAnything() profile {
	p := p3()
	p.cluster = append(p.cluster, rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get", "delete"),
		rule(rbacv1.GroupName, "roles rolebindings", "get", "delete"))
	return p
}

func csvReadsPods() any {
	return map[string]any{"serviceAccountName": "operator", "rules": []any{map[string]any{
		"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}}
}

// markedAsOurs creates objects inside and outside the namespace that have all marks of the probe's objects.
func (s *scene) markedAsOurs() []client.Object {
	s.T.Helper()
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: probe, Namespace: s.Namespace}, CSV: probeCSV}
	meta := func(namespace string) metav1.ObjectMeta {
		out := metav1.ObjectMeta{Namespace: namespace, Name: "foreign-" + s.Namespace, Labels: owner.Labels()}
		out.Labels[names.LabelPermissionsHash] = "aaaaaaaaaaaaaaaa"
		return out
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "somebody"}}
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta("")},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta(""), RoleRef: ref, Subjects: subjects},
		&rbacv1.Role{ObjectMeta: meta(neighbor)},
		&rbacv1.RoleBinding{ObjectMeta: meta(neighbor), RoleRef: ref, Subjects: subjects},
		&rbacv1.Role{ObjectMeta: meta(s.Namespace)},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta("")},
	}
	for _, obj := range objects {
		s.createOutside(obj)
	}
	return objects
}

// touch makes an insignificant change to a CSV, so that it is reconciled.
func (s *scene) touch(name string) error {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := s.Get(name, csv); err != nil {
		return err
	}
	csv.Spec.Description += " touched"
	return cluster.Client.Update(s.T.Context(), csv)
}

func (s *scene) configMapOf(owner ownerutil.Owner, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": "ours"}}}
	obj.SetNamespace(s.Namespace)
	obj.SetName(name)
	obj.SetLabels(owner.Labels())
	return obj
}

// replacing returns a client that replaces the object theirs with a new one after every read.
func (s *scene) replacing(c client.WithWatch, theirs *unstructured.Unstructured) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			old := theirs.DeepCopy()
			if client.IgnoreNotFound(cluster.Client.Delete(ctx, old)) != nil {
				return err
			}
			if createErr := cluster.Client.Create(ctx, theirs); createErr != nil {
				return createErr
			}
			return err
		},
	})
}
