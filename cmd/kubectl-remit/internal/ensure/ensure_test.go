package ensure

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Regression test: the commands did not say what they had written before a request was refused.
func TestAFailureNamesWhatWasDone(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, rbacv1.AddToScheme(scheme))
	const refused = "b"
	refuse := func(obj client.Object) error {
		if obj.GetName() == refused {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, refused, nil)
		}
		return nil
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := refuse(obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
			return refuse(obj)
		},
	}).Build()
	var changes []Change
	for _, name := range []string{"a", refused, "c"} {
		role := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		changes = append(changes, Change{Want: role})
	}
	const group = "role.rbac.authorization.k8s.io/"
	done, err := Each(t.Context(), c, changes, Change.Make)
	require.Equal(t, []string{Created}, done)
	require.True(t, apierrors.IsForbidden(err))
	require.ErrorContains(t, err, "create Role ns/b")
	require.ErrorContains(t, err, "Done before: "+group+"a created. Not tried: "+group+"c.")

	for i := range changes {
		changes[i].Live = changes[i].Want
	}
	done, err = Each(t.Context(), c, changes, Change.Remove)
	require.Equal(t, []string{Deleted}, done)
	require.ErrorContains(t, err, "delete Role ns/b")
	require.ErrorContains(t, err, "Done before: "+group+"a deleted. Not tried: "+group+"c.")

	done, err = Each(t.Context(), c, changes[1:2], Change.Remove)
	require.Empty(t, done)
	require.ErrorContains(t, err, "Done before: nothing. Not tried: nothing.")
}
