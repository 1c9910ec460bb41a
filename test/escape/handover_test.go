package escape

import (
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/escape/forge"
)

// successor is the name of a weaker account that an administrator names after an install.
const successor = "acct2"

// byStronger is part of the message about what an earlier, stronger account has granted to the operator.
const byStronger = "bindings that were created for this operator as an account that could do more refer to it"

// handovers contains operators whose account is exchanged for a weaker one, and new versions by users of the weaker one.
func handovers() []row {
	return []row{
		{number: "396", title: "a version of a user who may only use the weaker account that an OperatorGroup names after the install", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(cluster.Client, permits(readSecrets)().Object))
			s.csvSays(succeeded)
			s.operatorCan("list", "secrets", true)
			before := &appsv1.Deployment{}
			require.NoError(s.T, s.Get(forge.Deployment, before))
			s.nameSuccessor()
			s.regroup(cluster.Client, func(og *operatorsv1.OperatorGroup) { og.Spec.ServiceAccountName = successor })
			s.csvSays(succeeded, names.ConditionExceedsAccount)

			bob := s.authorWho(rule("operators.coreos.com", "clusterserviceversions", "get", "create", "patch"), actAs(successor))
			require.NoError(s.T, s.apply(bob, own(nextVersion()).Object))
			s.laterSays(failed, "may not run as ServiceAccount", byStronger, "secrets", "; grant what they grant to ServiceAccount "+s.Namespace+"/"+successor+", or delete them")
			s.untouched(before)
			s.operatorCan("list", "secrets", true) // the earlier version, which keeps running
			for _, b := range s.bindings() {
				if b.Labels[names.LabelOwner] == probeCSV {
					require.NoError(s.T, cluster.Client.Delete(s.T.Context(), &b))
				}
			}
			s.laterSays(succeeded)
			s.operatorCan("list", "secrets", false)
		}},
	}
}

// own makes a CSV run an image of its author, with no more permissions than to read ConfigMaps.
func own(c forge.CSV) forge.CSV {
	return c.Permissions(forge.Entry(forge.ServiceAccount, readMaps)).PodSpec([]any{map[string]any{"name": "operator", "image": "example.com/bobs-own:v1"}}, "containers")
}

// nameSuccessor creates the weaker account. It may install operators that read ConfigMaps, but not delete roles and bindings.
func (s *scene) nameSuccessor() {
	s.T.Helper()
	verbs := []string{"get", "list", "create", "patch"}
	replaces := append(slices.Clone(verbs), "update", "delete")
	s.account(successor, profile{own: []rbacv1.PolicyRule{
		rule("operators.coreos.com", "clusterserviceversions operatorconditions operatorconditions/status", replaces...), rule("", "serviceaccounts", replaces...),
		rule("apps", "deployments", replaces...), rule(rbacv1.GroupName, "roles rolebindings", verbs...), rule("", "configmaps", "get"),
	}})
	account := types.NamespacedName{Namespace: s.Namespace, Name: successor}
	for _, obj := range scoped.Enrollment(account, names.DefaultNamespace) {
		s.Create(obj)
	}
	s.told.Accounts = append(s.told.Accounts, account)
	require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
}

// laterSays waits until the second version is in a phase, with a message that contains these words.
func (s *scene) laterSays(phase operatorsv1alpha1.ClusterServiceVersionPhase, words ...string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		csv := s.CSV(c, laterCSV)
		assert.Equal(c, phase, csv.Status.Phase, csv.Status.Message)
		for _, w := range words {
			assert.Contains(c, csv.Status.Message, w)
		}
	})
}
