package escape

import (
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
)

// edited returns a row in which a tenant changes an installed CSV to request permissions that the account does not have.
func edited(number, title string, edit func(spec *operatorsv1alpha1.ClusterServiceVersionSpec), words ...string) row {
	return row{number: number, title: title, holds: p0(), boss: true, play: func(s *scene) {
		s.install(bundleOf(csv()))
		csv := s.Succeeded(probeCSV)
		before := csv.DeepCopy()
		edit(&csv.Spec)
		require.NoError(s.T, s.mallory().Patch(s.T.Context(), csv, client.MergeFrom(before)))
		s.Eventually(func(c *assert.CollectT) {
			csv := s.CSV(c, probeCSV)
			assert.NotEqual(c, succeeded, csv.Status.Phase)
			for _, w := range words {
				assert.Contains(c, statusText(c, csv.Status), w)
			}
		})
		s.settle()
	}}
}

func csvs() []row {
	everythingFor := []operatorsv1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: forge.ServiceAccount, Rules: []rbacv1.PolicyRule{everything()}}}
	return []row{
		edited("76", "an installed CSV that is edited to request clusterPermissions", func(spec *operatorsv1alpha1.ClusterServiceVersionSpec) {
			spec.InstallStrategy.StrategySpec.ClusterPermissions = everythingFor
		}, "Policy rule not satisfied", "cluster-wide"),
		edited("76a", "an installed CSV that is edited to request more permissions", func(spec *operatorsv1alpha1.ClusterServiceVersionSpec) {
			spec.InstallStrategy.StrategySpec.Permissions = everythingFor
		}, "Policy rule not satisfied", "in namespace"),
		edited("76b", "an installed CSV that is edited to run as a stronger ServiceAccount", func(spec *operatorsv1alpha1.ClusterServiceVersionSpec) {
			spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName = bossName
		}, "may not run as ServiceAccount"),
		{number: "77", title: "a CSV that replaces another owner's CSV, by a user who may not delete that CSV", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			victim := s.Succeeded(probeCSV)
			author := s.authorWho(rule("operators.coreos.com", "clusterserviceversions", "create"), actAs(accountName))
			attacker := forge.NewCSV("attacker.v9.0.0").RenameObjects("attacker").Set(probeCSV, "spec", "replaces")
			require.NoError(s.T, s.apply(author, attacker.Object))
			s.Eventually(func(c *assert.CollectT) {
				assert.NotEqual(c, operatorsv1alpha1.CSVPhaseNone, s.CSV(c, "attacker.v9.0.0").Status.Phase)
			})
			s.settle()
			after := s.CSV(s.T, probeCSV)
			require.Equal(s.T, victim.UID, after.UID)
			require.Equal(s.T, succeeded, after.Status.Phase, after.Status.Message)
			require.NoError(s.T, s.Get(forge.Deployment, &appsv1.Deployment{}))
		}},
		{number: "79", title: "a CSV that a tenant labels as a copy", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			copied := csv().Set(map[string]any{names.LabelCopiedFrom: neighbor}, "metadata", "labels")
			require.NoError(s.T, s.apply(s.mallory(), copied.Object))
			s.noDeployments() // a copied CSV is not reconciled
			require.Empty(s.T, s.CSV(s.T, probeCSV).Status.Phase)
			s.nothingWritten() // a copied CSV is not removed either
		}},
		{number: "79a", title: "a CSV whose annotations claim that it belongs to another namespace", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			annotations := map[string]any{
				names.AnnotationOperatorNamespace: neighbor, names.AnnotationOperatorGroup: "og", names.AnnotationTargetNamespaces: "kube-system",
			}
			require.NoError(s.T, s.apply(s.mallory(), csv().Set(annotations, "metadata", "annotations").Object))
			csv := s.csvSays(succeeded) // the OperatorGroup determines the annotations, regardless of what the author wrote
			require.Equal(s.T, s.Namespace, csv.Annotations[names.AnnotationOperatorNamespace])
			require.Equal(s.T, s.Namespace, csv.Annotations[names.AnnotationTargetNamespaces])
			deployed := &appsv1.Deployment{}
			require.NoError(s.T, s.Get(forge.Deployment, deployed))
			require.Equal(s.T, s.Namespace, deployed.Spec.Template.Annotations[names.AnnotationTargetNamespaces])
		}},
		{number: "79b", title: "a bundle whose CSV is labeled as a copy", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv().Set(map[string]any{names.LabelCopiedFrom: neighbor}, "metadata", "labels").
				Set(map[string]any{names.AnnotationTargetNamespaces: "kube-system"}, "metadata", "annotations")))
			csv := s.Succeeded(probeCSV)
			require.NotContains(s.T, csv.Labels, names.LabelCopiedFrom)
			require.Equal(s.T, s.Namespace, csv.Annotations[names.AnnotationTargetNamespaces])
		}},
		{number: "80", title: "a copied CSV whose label is removed by a user who may not act as the account", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			copied := csv().Set(map[string]any{names.LabelCopiedFrom: neighbor}, "metadata", "labels")
			require.NoError(s.T, s.apply(cluster.Client, copied.Object))
			author := s.authorWho(rule("operators.coreos.com", "clusterserviceversions", "get", "patch"))
			csv := s.CSV(s.T, probeCSV)
			before := csv.DeepCopy()
			delete(csv.Labels, names.LabelCopiedFrom)
			s.labelDenied(author.Patch(s.T.Context(), csv, client.MergeFrom(before)))
			s.noDeployments()
		}},
		{number: "80a", title: "an active CSV whose status claims that it is a copy", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.forge(s.authorWho(rule("operators.coreos.com", "clusterserviceversions/status", "update")), probeCSV,
				statusOf(succeeded, operatorsv1alpha1.CSVReasonCopied))
			s.csvSays(succeeded) // the CSV is still reconciled
			s.Eventually(func(c *assert.CollectT) {
				assert.NotEqual(c, operatorsv1alpha1.CSVReasonCopied, s.CSV(c, probeCSV).Status.Reason)
			})
		}},
		{number: "82", title: "a CSV with the same name as a Role in the namespace", holds: p0(), play: func(s *scene) {
			role := &rbacv1.Role{ObjectMeta: s.Meta("own")}
			s.Create(role)
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), forge.NewCSV("own").Object))
			s.Eventually(func(c *assert.CollectT) { assert.Equal(c, succeeded, s.CSV(c, "own").Status.Phase) })
			after := &rbacv1.Role{}
			require.NoError(s.T, s.Get("own", after))
			require.Equal(s.T, role.ResourceVersion, after.ResourceVersion)
		}},
		{number: "83", title: "an OperatorCondition for a stronger ServiceAccount", holds: p0(), boss: true, play: func(s *scene) {
			condition := &operatorsv2.OperatorCondition{ObjectMeta: s.Meta(probeCSV), Spec: operatorsv2.OperatorConditionSpec{
				ServiceAccounts: []string{bossName, "default"}, Deployments: []string{forge.Deployment},
			}}
			require.NoError(s.T, s.mallory().Create(s.T.Context(), condition))
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.settle()
			for _, b := range s.bindings() {
				require.False(s.T, slices.ContainsFunc(b.Subjects, func(x rbacv1.Subject) bool { return x.Name == bossName }), b.Name)
			}
		}},
		{number: "84", title: "a CSV in a namespace without an account", holds: p0(), play: func(s *scene) {
			s.Create(&operatorsv1.OperatorGroup{ObjectMeta: s.Meta(groupName)})
			require.NoError(s.T, s.apply(s.mallory(), csv().Object))
			s.csvSays(pending, "does not name a ServiceAccount")
			s.noDeployments()
		}},
	}
}

// bindings returns the RoleBindings in the namespace that the scene itself did not create.
func (s *scene) bindings() []rbacv1.RoleBinding {
	s.T.Helper()
	list := &rbacv1.RoleBindingList{}
	s.list(list)
	return slices.DeleteFunc(list.Items, func(b rbacv1.RoleBinding) bool {
		return b.Name == accountName || b.Name == malloryName || strings.HasPrefix(b.Name, "remit-enrollment-")
	})
}

// author returns a client for a user who may use these verbs on one kind of the OLM API and list Pods, and nothing
// else.
func (s *scene) author(resource string, verbs ...string) client.Client {
	s.T.Helper()
	return s.authorWho(rule("operators.coreos.com", resource, verbs...))
}

// authorWho returns a client for a user who has only these permissions and permission to list Pods.
func (s *scene) authorWho(rules ...rbacv1.PolicyRule) client.Client {
	s.T.Helper()
	const name = "author"
	s.bind(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, name,
		profile{own: append(rules, rule("", "pods", "list"))})
	return s.knownAs(name)
}
