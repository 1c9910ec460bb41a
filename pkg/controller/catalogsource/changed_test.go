package catalogsource

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/test/env/registry"
)

// locked returns a world whose registry requires credentials. The Secret that contains them cannot be read until grant
// is called.
func locked(t *testing.T) (w *world, grant func() *rbacv1.RoleBinding) {
	t.Helper()
	s := registry.New(t)
	ref, _ := push(t, s, "catalog:v1", goodCatalog)
	s.Answer(login)
	bindings := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, rbac.BindingIndexers())
	empty := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	w = running(t, catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: ref, Secrets: []string{"login"}}))
	w.RBAC = rbac.Listers{
		Roles: rbacv1listers.NewRoleLister(empty), RoleBindings: rbac.NewRoleBindingLister(bindings),
		ClusterRoles: rbacv1listers.NewClusterRoleLister(empty), ClusterRoleBindings: rbac.NewClusterRoleBindingLister(
			toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, rbac.BindingIndexers())),
	}
	may := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "may"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reads"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "remit", Name: "acct"}}}
	auth := base64.StdEncoding.EncodeToString([]byte("u:p"))
	w.Secrets = func(_ context.Context, listers rbac.Listers, key types.NamespacedName) (*corev1.Secret, error) {
		if _, err := listers.EffectiveRules(rbac.ServiceAccount("remit", "acct"), "remit"); err != nil {
			return nil, err
		}
		if len(bindings.List()) == 0 {
			return nil, apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, nil)
		}
		return &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, s.Host, auth)}}, nil
	}
	return w, func() *rbacv1.RoleBinding {
		require.NoError(t, bindings.Add(may))
		return may
	}
}

// isRetried advances the clock by less than the delay after a failure, and reports whether a pull was retried. If
// wanted is true, it waits until the retry happens.
func (w *world) isRetried(t *testing.T, wanted bool) bool {
	t.Helper()
	left := firstReload / 2
	if !wanted {
		w.pass(t, left)
		return len(w.woken) > 0
	}
	require.Eventually(t, func() bool {
		if step := firstReload / 100; left > 0 {
			w.clock.Step(step)
			left -= step
		}
		return len(w.woken) > 0
	}, time.Minute, 10*time.Millisecond)
	return true
}

func TestAGrantRetriesAFailedPull(t *testing.T) {
	w, grant := locked(t)
	require.Contains(t, w.afterCheck(t, "cat").Message, "forbidden")
	early := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "other"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reads"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "remit", Name: "other"}}}
	w.Changed(t.Context(), nil, early)
	require.False(t, w.isRetried(t, false), "the binding is for another account")

	early.Subjects[0].Name = "acct"
	w.Changed(t.Context(), nil, early)
	require.True(t, w.isRetried(t, true))
	require.Contains(t, w.afterCheck(t, "cat").Message, "forbidden", "the cache may show a grant before the API server applies it")

	w.Changed(t.Context(), nil, grant())
	require.Eventually(t, func() bool {
		w.clock.Step(kit.ShortestRetry / 10)
		_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("cat")})
		return err == nil && w.status(t, "cat").Message == ""
	}, time.Minute, 10*time.Millisecond)
	w.forgotten(t)
}

// forgotten waits until RBAC changes no longer affect any pull.
func (w *world) forgotten(t *testing.T) {
	t.Helper()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "remit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "remit", Name: "acct"}}}
	require.Eventually(t, func() bool { return len(w.pulls.interests.Concerned(nil, binding)) == 0 }, time.Minute, time.Millisecond)
}

func TestForgetsADeletedCatalog(t *testing.T) {
	w, _ := locked(t)
	require.Contains(t, w.afterCheck(t, "cat").Message, "forbidden")
	cs := catalogSource("cat", operatorsv1alpha1.CatalogSourceSpec{})
	require.NoError(t, w.Delete(t.Context(), cs))
	_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key("cat")})
	require.NoError(t, err)
	w.forgotten(t)
}

func TestOtherChangesThatRetryAFailedPull(t *testing.T) {
	group := func(account string) *operatorsv1.OperatorGroup {
		return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "og"},
			Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: account}}
	}
	account := func(name string, secrets ...corev1.LocalObjectReference) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: name}, ImagePullSecrets: secrets}
	}
	otherGroup := group("a")
	otherGroup.Namespace = "other"
	for _, row := range []struct {
		name          string
		before, after client.Object
		want          bool
	}{
		{"another account", group("a"), group("b"), true},
		{"an OperatorGroup", nil, group("a"), true},
		{"an OperatorGroup in another namespace", nil, otherGroup, false},
		{"an OperatorGroup's status", group("a"), group("a"), false},
		{"pull secrets of the CatalogSource's ServiceAccount", account("cat"), account("cat", corev1.LocalObjectReference{Name: "x"}), true},
		{"a new ServiceAccount of the same name with a pull secret", nil, account("cat", corev1.LocalObjectReference{Name: "x"}), true},
		{"pull secrets of another ServiceAccount", account("other"), account("other", corev1.LocalObjectReference{Name: "x"}), false},
		{"labels", account("cat"), account("cat"), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w, _ := locked(t)
			require.NoError(t, operatorsv1.AddToScheme(w.Client.Scheme()))
			require.Contains(t, w.afterCheck(t, "cat").Message, "forbidden")
			w.Changed(t.Context(), row.before, row.after)
			require.Equal(t, row.want, w.isRetried(t, row.want))
		})
	}
}
