package escape

import (
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env/audit"
)

func operatorGroups() []row {
	names := func(account string) func(og *operatorsv1.OperatorGroup) {
		return func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = account }
	}
	rows := []row{
		{number: "58", title: "an OperatorGroup whose account is cleared by an operator that the account bounds", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			s.regroup(s.asAccount(), names(""))
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.refused("does not name a ServiceAccount")
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionFalse, string(scoped.NoAccount), "no default account is configured")
		}},
		{number: "59", title: "an OperatorGroup that names a stronger ServiceAccount", holds: p1(), boss: true, play: func(s *scene) {
			s.group(s.Namespace)
			s.publish(bundleOf(csv()))
			s.catalogReady() // the catalog is read as the account
			s.regroup(s.mallory(), names(bossName))
			s.subscribe()
			s.planSays(bossName, "not enrolled")
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionFalse, string(scoped.AccountNotEnrolled), bossName)
			s.settle()
			s.nothingWritten()
			require.Empty(s.T, s.writes(bossName))
			require.Empty(s.T, s.tokensOf(bossName))
		}},
		{number: "59a", title: "an installed operator whose OperatorGroup is changed to name a stronger ServiceAccount", holds: p1(), boss: true, play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.regroup(s.mallory(), names(bossName))
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionFalse, string(scoped.AccountNotEnrolled), bossName)
			s.settle()
			require.Empty(s.T, s.writes(bossName))
			require.Empty(s.T, s.tokensOf(bossName))
		}},
		{number: "59b", title: "an author who may not act as the account that the OperatorGroup names", holds: p0(), boss: true, play: func(s *scene) {
			og := s.group(s.Namespace)
			author := s.author("operatorgroups", "get", "create", "update", "patch")
			before := og.DeepCopy()
			og.Spec.ServiceAccountName = bossName
			err := author.Patch(s.T.Context(), og, client.MergeFrom(before))
			require.ErrorContains(s.T, err, "impersonate")
			second := &operatorsv1.OperatorGroup{ObjectMeta: s.Meta("second"), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: bossName}}
			require.ErrorContains(s.T, author.Create(s.T.Context(), second), "impersonate")
			// Edits that do not change the account are allowed.
			s.regroup(author, func(og *operatorsv1.OperatorGroup) { og.Labels = map[string]string{"team": "green"} })
		}},
		{number: "61", title: "a status that names an account of kube-system", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.forgeStatus(s.mallory(), func(st *operatorsv1.OperatorGroupStatus) {
				st.ServiceAccountRef = &corev1.ObjectReference{Kind: "ServiceAccount", APIVersion: "v1", Namespace: "kube-system", Name: "x"}
				st.Namespaces = []string{"kube-system", ""}
			})
			s.publish(bundleOf(csv()))
			s.subscribe()
			require.Equal(s.T, accountName, s.Complete().Status.AttenuatedServiceAccountRef.Name)
			s.Succeeded(probeCSV)
			s.Eventually(func(c *assert.CollectT) {
				og := &operatorsv1.OperatorGroup{}
				assert.NoError(c, s.Get(groupName, og))
				assert.Equal(c, []string{s.Namespace}, og.Status.Namespaces)
				if assert.NotNil(c, og.Status.ServiceAccountRef) {
					assert.Equal(c, accountName, og.Status.ServiceAccountRef.Name)
				}
			})
		}},
		{number: "62", title: "all namespaces are selected after the install", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.retarget()
			// The suite's specification requires Pending. As in OLM v0, however, an installed operator whose requirements
			// are no longer met becomes Failed.
			s.csvSays(failed, "requirements no") // first "requirements no longer met", later "requirements not met"
			s.settle()
			list := &rbacv1.ClusterRoleBindingList{}
			require.NoError(s.T, cluster.Client.List(s.T.Context(), list))
			for _, b := range list.Items {
				for _, subject := range b.Subjects {
					require.False(s.T, subject.Namespace == s.Namespace && subject.Name == "operator", b.Name)
				}
			}
		}},
		{number: "64", title: "an OperatorGroup that is deleted during a plan", holds: p0(), play: func(s *scene) {
			blocker := s.stopped()
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)}))
			s.planSays("has no OperatorGroup")
			blocker.Remove()
			s.halted()
		}},
		{number: "64a", title: "a second OperatorGroup that is created during a plan", holds: p0(), play: func(s *scene) {
			blocker := s.stopped()
			s.Create(&operatorsv1.OperatorGroup{ObjectMeta: s.Meta("second"), Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName}})
			s.planSays("has 2 OperatorGroups")
			blocker.Remove()
			s.halted()
		}},
	}
	for i, name := range []string{"../" + bossName, "remit/remit-catalog", "system:serviceaccount:kube-system:default", strings.Repeat("n", 300)} {
		rows = append(rows, row{number: "60" + letter(i), title: fmt.Sprintf("an OperatorGroup that names %.20q", name), holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.regroup(s.mallory(), names(name))
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.refused("is not a valid name")
		}})
	}
	for i, value := range []string{"0", "999999h", "\u00bd fortnight"} {
		rows = append(rows, row{number: "65" + letter(i), title: fmt.Sprintf("bundle-unpack-timeout %q", value), holds: p0(), play: func(s *scene) {
			og := &operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName),
				Spec: operatorsv1.OperatorGroupSpec{ServiceAccountName: accountName, TargetNamespaces: []string{s.Namespace}}}
			og.Annotations = map[string]string{
				"operatorframework.io/bundle-unpack-timeout":            value,
				"operatorframework.io/bundle-unpack-min-retry-interval": value,
			}
			s.Create(og)
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.Succeeded(probeCSV)
		}})
	}
	return rows
}

// asAccount returns a client that impersonates the account.
func (s *scene) asAccount() client.Client {
	s.T.Helper()
	return cluster.As(s.T, scoped.Username(s.Namespace, accountName))
}

// tokensOf returns all requests sent during the scene for tokens of a ServiceAccount in the namespace.
func (s *scene) tokensOf(name string) []audit.Event {
	s.T.Helper()
	return s.requests(func(e audit.Event) bool {
		return e.Object != nil && e.Object.Subresource == "token" && e.Object.Namespace == s.Namespace && e.Object.Name == name
	})
}

// forgeStatus edits the OperatorGroup's status with the given client, after Remit has written it.
func (s *scene) forgeStatus(c client.Client, edit func(st *operatorsv1.OperatorGroupStatus)) {
	s.T.Helper()
	og := &operatorsv1.OperatorGroup{}
	s.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, s.Get(groupName, og))
		assert.NotNil(c, og.Status.LastUpdated)
	})
	before := og.DeepCopy()
	edit(&og.Status)
	require.NoError(s.T, c.Status().Patch(s.T.Context(), og, client.MergeFrom(before)))
}

// waiting creates a Subscription with manual approval to a bundle. It returns the InstallPlan, which waits for
// approval.
func (s *scene) waiting(texts ...string) *operatorsv1alpha1.InstallPlan {
	s.T.Helper()
	s.group(s.Namespace)
	s.publish(bundleOf(csv(), texts...))
	s.subscribe(manual)
	return s.unapproved()
}

func manual(spec *operatorsv1alpha1.SubscriptionSpec) {
	spec.InstallPlanApproval = operatorsv1alpha1.ApprovalManual
}

// unapproved waits until the plan requires approval and returns it.
func (s *scene) unapproved() *operatorsv1alpha1.InstallPlan {
	s.T.Helper()
	var ip *operatorsv1alpha1.InstallPlan
	s.Eventually(func(c *assert.CollectT) {
		ip = s.Plan(c)
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseRequiresApproval, ip.Status.Phase)
		assert.NotEmpty(c, ip.Status.Plan)
	})
	return ip
}
