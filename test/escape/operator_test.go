package escape

import (
	"context"
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
)

// operatorObjects returns rows about Operators, which are cluster-scoped and are written as the controller identity.
func operatorObjects() []row {
	return []row{
		{number: "162", title: "objects in another namespace with the marks of an operator, and a Subscription to a package with the name of its Operator", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			s.listed(victim.Name)
			foreign := &unstructured.Unstructured{Object: map[string]any{"apiVersion": rbacv1.SchemeGroupVersion.String(), "kind": "Role", "rules": []any{}}}
			foreign.SetNamespace("t2")
			foreign.SetName("foreign-" + s.Namespace)
			foreign.SetAnnotations(map[string]string{proofAnnotation: victim.Annotations[proofAnnotation]})
			s.forged(foreign)
			// The package begins with the name of the victim's Operator, and its component label is cut after that name.
			mimic := operatorName(s) + strings.Repeat(".", 63)
			s.Create(&operatorsv1alpha1.Subscription{ObjectMeta: s.Meta("mimic"), Spec: &operatorsv1alpha1.SubscriptionSpec{
				CatalogSource: "catalog", CatalogSourceNamespace: s.Namespace, Package: mimic, Channel: forge.Channel,
			}})
			s.Subscribe("catalog", "last", forge.Channel)
			s.Eventually(func(c *assert.CollectT) { // the namespace was reconciled after all of these changes
				assert.NoError(c, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "last." + s.Namespace}, &operatorsv1.Operator{}))
			})
			for _, line := range s.listed(victim.Name) {
				require.NotContains(s.T, line, "foreign-")
				require.NotContains(s.T, line, "Subscription t2/")
			}
			require.Len(s.T, s.operators(), 2, "the package without a valid name has no Operator")
		}},
		{number: "162a", title: "an Operator with a finalizer that another user created for a package before it was installed", holds: p0(), play: func(s *scene) {
			theirs := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: operatorName(s), Labels: map[string]string{"by": "mallory"}, Finalizers: []string{"mallory.test/keep"}}}
			s.Create(theirs)
			s.T.Cleanup(func() { s.removeOperator(theirs.Name) })
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.listed(probeCSV)
			s.removeCSV()
			s.Subscribe("catalog", "last", forge.Channel)
			s.Eventually(func(c *assert.CollectT) { // the namespace was reconciled without the ClusterServiceVersion
				assert.NoError(c, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: "last." + s.Namespace}, &operatorsv1.Operator{}))
			})
			live := &operatorsv1.Operator{}
			require.NoError(s.T, cluster.Client.Get(s.T.Context(), client.ObjectKeyFromObject(theirs), live))
			require.Nil(s.T, live.DeletionTimestamp, "Remit deletes only Operators that it created")
			require.Equal(s.T, []any{theirs.UID, theirs.Labels, theirs.Finalizers, 0}, []any{live.UID, live.Labels, live.Finalizers, len(live.OwnerReferences)})
		}},
	}
}

func operatorName(s *scene) string { return probe + "." + s.Namespace }

// listed waits until the scene's Operator lists a ClusterServiceVersion, and returns all references.
func (s *scene) listed(csv string) (refs []string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		op := &operatorsv1.Operator{}
		if !assert.NoError(c, cluster.Client.Get(s.T.Context(), client.ObjectKey{Name: operatorName(s)}, op)) || !assert.NotNil(c, op.Status.Components) {
			return
		}
		refs = nil
		for _, r := range op.Status.Components.Refs {
			refs = append(refs, fmt.Sprintf("%s %s/%s", r.Kind, r.Namespace, r.Name))
		}
		assert.Contains(c, refs, operatorsv1alpha1.ClusterServiceVersionKind+" "+s.Namespace+"/"+csv)
	})
	return refs
}

// operators returns the names of the Operators of the scene's namespace.
func (s *scene) operators() (names []string) {
	s.T.Helper()
	list := &operatorsv1.OperatorList{}
	require.NoError(s.T, cluster.Client.List(s.T.Context(), list))
	for _, op := range list.Items {
		if strings.HasSuffix(op.Name, "."+s.Namespace) {
			names = append(names, op.Name)
		}
	}
	return names
}

// removeOperator deletes an Operator with a finalizer.
func (s *scene) removeOperator(name string) {
	op := &operatorsv1.Operator{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ctx := context.Background()
	if err := cluster.Client.Patch(ctx, op, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil && !apierrors.IsNotFound(err) {
		assert.NoError(s.T, err)
	}
	assert.NoError(s.T, client.IgnoreNotFound(cluster.Client.Delete(ctx, op)))
}
