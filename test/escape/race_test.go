package escape

import (
	"net/http"
	"slices"
	"syscall"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/oracle"
)

func races() []row {
	return []row{
		{number: "103", title: "an account whose permissions are revoked after step 3 of 9", holds: p0(), play: func(s *scene) {
			blocker := s.stopped()
			require.Len(s.T, s.Plan(s.T).Status.Plan, 9)
			binding := s.revoke()
			s.PermissionsMissing()
			blocker.Remove()
			before := len(s.sent())
			s.halted()
			after := slices.DeleteFunc(s.sent()[before:], isRead(s.Namespace, "configmaps", "content")) // not of the catalog's content
			require.LessOrEqual(s.T, len(after), 2, "the plan must wait for the grant without retrying: %v", after)
			binding.ResourceVersion = ""
			s.Create(binding)
			s.Complete()
			s.Succeeded(probeCSV)
		}},
		{number: "103a", title: "an account whose permissions are revoked after the install", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.revoke()
			s.csvSays(succeeded, "ExceedsAccount")
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &appsv1.Deployment{ObjectMeta: s.Meta("operator")}))
			s.noDeployments() // Remit must not recreate a Deployment whose permissions exceed the account's
		}},
		{number: "104", title: "an OperatorGroup that names another account during a plan", holds: p0(), play: func(s *scene) {
			const second = "acct2"
			s.account(second, p0())
			for _, obj := range scoped.Enrollment(types.NamespacedName{Namespace: s.Namespace, Name: second}, names.DefaultNamespace) {
				s.Create(obj)
			}
			s.told.Accounts = append(s.told.Accounts, types.NamespacedName{Namespace: s.Namespace, Name: second})
			blocker := s.stopped()
			s.regroup(cluster.Client, func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = second })
			s.Eventually(func(c *assert.CollectT) {
				ref := s.Plan(c).Status.AttenuatedServiceAccountRef
				if assert.NotNil(c, ref) {
					assert.Equal(c, second, ref.Name)
				}
			})
			blocker.Remove()
			s.Complete()
			s.Succeeded(probeCSV)
			s.neverBackTo(accountName, second)
		}},
		{number: "106", title: "both programs are killed during a plan", holds: p0(), play: func(s *scene) {
			s.allow(remitItself)
			blocker := s.stopped()
			programs, err := oracle.Programs(cluster)
			require.NoError(s.T, err)
			programs = slices.DeleteFunc(programs, func(p oracle.Program) bool { return p.Name == "extension" })
			require.Len(s.T, programs, 2)
			for _, p := range programs {
				require.NoError(s.T, syscall.Kill(p.PID, syscall.SIGKILL))
			}
			blocker.Remove()
			s.Complete()
			s.Succeeded(probeCSV)
			s.madeOnce()
		}},
		{number: "107", title: "two replicas, and a change of leader during a plan", holds: p0(), play: func(s *scene) {
			s.allow(remitItself)
			s.replicas(2)
			blocker := s.stopped()
			s.dismissLeader()
			blocker.Remove()
			s.Complete()
			s.Succeeded(probeCSV)
			s.madeOnce()
			s.replicas(1)
		}},
	}
}

// revoke deletes the RoleBinding that grants the account its permissions in the namespace. It returns the binding, so
// that it can be restored.
func (s *scene) revoke() *rbacv1.RoleBinding {
	s.T.Helper()
	require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
	binding := &rbacv1.RoleBinding{}
	require.NoError(s.T, s.Get(accountName, binding))
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), binding.DeepCopy()))
	return binding
}

// sent returns all requests that were sent as the account.
func (s *scene) sent() []audit.Event {
	s.T.Helper()
	user := scoped.Username(s.Namespace, accountName)
	return s.requests(func(e audit.Event) bool { return e.User.Username == user })
}

// isRead returns a function that reports whether a request is about an object.
func isRead(namespace, resource, name string) func(audit.Event) bool {
	return func(e audit.Event) bool {
		return !e.IsWrite() && e.Object != nil && e.Object.Resource == resource && e.Object.Namespace == namespace && e.Object.Name == name
	}
}

// neverBackTo asserts that Remit sent no write as the first account after a write as the second one.
func (s *scene) neverBackTo(first, second string) {
	s.T.Helper()
	moved := map[string]bool{}
	for _, e := range s.requests(func(e audit.Event) bool { return e.IsWrite() }) {
		switch e.User.Username {
		case scoped.Username(s.Namespace, second):
			moved[e.UserAgent] = true
		case scoped.Username(s.Namespace, first):
			require.False(s.T, moved[e.UserAgent], e.String())
		}
	}
	require.NotEmpty(s.T, moved)
}

// madeOnce asserts that no object was created twice as the account.
func (s *scene) madeOnce() {
	s.T.Helper()
	made := map[string]int{}
	for _, e := range s.writes() {
		if e.Response.Code == http.StatusCreated {
			made[e.Object.Resource+"/"+e.Object.Name]++
		}
	}
	require.NotEmpty(s.T, made)
	for what, times := range made {
		require.Equal(s.T, 1, times, what)
	}
	plans := &operatorsv1alpha1.InstallPlanList{}
	s.list(plans)
	require.Len(s.T, plans.Items, 1)
}

// remitItself reports whether a restart of Remit's Pods can cause a change.
func remitItself(c oracle.Change) bool {
	return c.Namespace == names.DefaultNamespace &&
		slices.Contains([]string{"pods", "replicasets", "deployments"}, c.Resource)
}

// replicas scales the catalog program to n Pods and waits until they are ready.
func (s *scene) replicas(n int32) {
	s.T.Helper()
	key := client.ObjectKey{Namespace: names.DefaultNamespace, Name: names.ServiceAccountCatalog}
	d := &appsv1.Deployment{}
	require.NoError(s.T, cluster.Client.Get(s.T.Context(), key, d))
	before := d.DeepCopy()
	d.Spec.Replicas = &n
	require.NoError(s.T, cluster.Client.Patch(s.T.Context(), d, client.MergeFrom(before)))
	s.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, cluster.Client.Get(s.T.Context(), key, d))
		assert.Equal(c, n, d.Status.ReadyReplicas)
		assert.Equal(c, n, d.Status.Replicas)
		assert.Len(c, catalogPods(c, s).Items, int(n))
	})
}

func catalogPods(c assert.TestingT, s *scene) *corev1.PodList {
	pods := &corev1.PodList{}
	assert.NoError(c, cluster.Client.List(s.T.Context(), pods, client.InNamespace(names.DefaultNamespace),
		client.MatchingLabels{"app.kubernetes.io/name": names.ServiceAccountCatalog}))
	return pods
}

// dismissLeader deletes the leader's Pod, which is the older one, and waits for a new leader.
func (s *scene) dismissLeader() {
	s.T.Helper()
	holder := func(c assert.TestingT) string {
		lease := &coordinationv1.Lease{}
		assert.NoError(c, cluster.Client.Get(s.T.Context(), client.ObjectKey{Namespace: names.DefaultNamespace, Name: names.UserAgentCatalog}, lease))
		return *lease.Spec.HolderIdentity
	}
	first := holder(s.T)
	pods := catalogPods(s.T, s).Items
	require.Len(s.T, pods, 2)
	elder := slices.MinFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &elder))
	s.Eventually(func(c *assert.CollectT) {
		now := holder(c)
		assert.NotEmpty(c, now)
		assert.NotEqual(c, first, now)
	})
}
