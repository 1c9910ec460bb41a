package escape

import (
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/escape/forge"
	"github.com/remit-olm/remit/test/escape/oracle"
)

const (
	// foreignMarks contains labels that mark an object as managed for another owner.
	foreignMarks = `labels: {olm.owner: ` + probeCSV + `, olm.owner.namespace: t1, olm.owner.kind: ClusterServiceVersion, olm.managed: "true",
  olm.copiedFrom: t2, remit.dev/lineage: aaaaaaaaaaaaaaaa}`

	trivialRole = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: NAME, ` + foreignMarks + `},
 rules: [` + readMaps + `]}`
	bindingTo = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: NAME, ` + foreignMarks + `},
 subjects: [{kind: ServiceAccount, name: operator}],
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: KIND, name: NAME}}`
)

// withoutPermissions returns a CSV whose operator needs no permissions and runs as the default ServiceAccount.
func withoutPermissions() forge.CSV {
	return csv().Permissions().PodSpec("default", "serviceAccountName")
}

// manifests returns a row whose bundle has these manifests in addition to a harmless CSV. The account is missing
// permissions for the manifests.
func manifests(number, title string, holds profile, texts []string, words ...string) row {
	return row{number: number, title: title, holds: holds, play: func(s *scene) {
		s.install(bundleOf(csv(), texts...))
		s.isMissing(words...)
	}}
}

func replaced(text string, pairs ...string) string { return newReplacer(pairs...).Replace(text) }

func rbacManifests() []row {
	return []row{
		{number: "13", title: "a Role cluster-admin and its binding, with an operator's marks, for all namespaces", holds: p0(), play: func(s *scene) {
			s.group()
			s.publish(bundleOf(withoutPermissions(),
				replaced(trivialRole, "NAME", "cluster-admin"), replaced(bindingTo, "NAME", "cluster-admin", "KIND", "Role")))
			s.subscribe()
			s.Complete()
			binding := &rbacv1.RoleBinding{}
			require.NoError(s.T, s.Get("cluster-admin", binding))
			require.Equal(s.T, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "cluster-admin"}, binding.RoleRef)
			require.Equal(s.T, s.Namespace, binding.Labels[names.LabelOwnerNamespace])
			require.NotEqual(s.T, "aaaaaaaaaaaaaaaa", binding.Labels[names.LabelLineage])
			require.NotContains(s.T, binding.Labels, names.LabelCopiedFrom)
		}},
		{number: "14", title: "the Role of a controller in kube-system, with kube-system as a target", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace, "kube-system")
			s.publish(bundleOf(withoutPermissions(),
				replaced(trivialRole, "NAME", "system:controller:token-cleaner"),
				replaced(bindingTo, "NAME", "system:controller:token-cleaner", "KIND", "Role")))
			s.subscribe()
			s.Complete()
			require.NoError(s.T, s.Get("system:controller:token-cleaner", &rbacv1.RoleBinding{}))
		}},
		manifests("16", "a binding to the ClusterRole admin", p0(), []string{replaced(bindingTo, "NAME", "admin", "KIND", "ClusterRole")},
			"pods/log", "namespaces"),
		manifests("16a", "a binding to the ClusterRole cluster-admin", p0(), []string{replaced(bindingTo, "NAME", "cluster-admin", "KIND", "ClusterRole")},
			"cannot * resource"),
		{number: "17", title: "a binding with the name of the account's own binding", holds: p0(), play: func(s *scene) {
			before := &rbacv1.RoleBinding{}
			require.NoError(s.T, s.Get(accountName, before))
			s.install(bundleOf(csv(), replaced(bindingTo, "NAME", accountName, "KIND", "Role")))
			s.planSays("RoleBinding "+s.Namespace+"/"+accountName, collides)
			s.nothingWritten()
			after := &rbacv1.RoleBinding{}
			require.NoError(s.T, s.Get(accountName, after))
			require.Equal(s.T, before, after)
		}},
		{number: "17a", title: "a Role with the name of the account's own Role", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), replaced(trivialRole, "NAME", accountName)))
			s.planSays("Role "+s.Namespace+"/"+accountName, collides)
			s.nothingWritten()
		}},
		manifests("17b", "an enrollment for a stronger ServiceAccount", p0(), []string{
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: remit-enrollment-boss},
			 rules: [{apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [boss], verbs: [create]}]}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: remit-enrollment-boss},
			 subjects: [{kind: ServiceAccount, namespace: remit, name: remit-catalog}],
			 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: remit-enrollment-boss}}`,
		}, "serviceaccounts/token"),
		manifests("19", "a ClusterRole that aggregates everything", p3(), []string{
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: escape-everything},
			 aggregationRule: {clusterRoleSelectors: [{matchExpressions: [{key: kubernetes.io/bootstrapping, operator: Exists}]}]}}`,
		}, `"*"`),
		manifests("19a", "a ClusterRole that aggregates to edit", p3(), []string{
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: escape-edit, labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}},
			 rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}`,
		}, "secrets"),
		manifests("19b", "a ClusterRoleBinding to cluster-admin", p3(), []string{
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: escape-admin},
			 subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "system:serviceaccounts"}],
			 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}`,
		}, "cannot * resource", "at the cluster scope"),
		{number: "19c", title: "a ClusterRole with the name of a default ClusterRole", holds: profile{own: p0().own, cluster: []rbacv1.PolicyRule{
			rule(rbacv1.GroupName, "clusterroles", "create", "patch", "get", "delete"),
		}}, play: func(s *scene) {
			s.install(bundleOf(csv(), `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: view}, rules: []}`))
			s.planSays("ClusterRole view already exists and was not created by this install")
			s.nothingWritten()
		}},
		{number: "20", title: "a binding that precedes its Role in the bundle", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), replaced(bindingTo, "NAME", "late", "KIND", "Role"), replaced(trivialRole, "NAME", "late")))
			ip := s.Complete()
			at := func(kind string) int {
				return slices.IndexFunc(ip.Status.Plan, func(st *operatorsv1alpha1.Step) bool { return st.Resource.Kind == kind && st.Resource.Name == "late" })
			}
			require.Less(s.T, at("Role"), at("RoleBinding"))
		}},
		manifests("20a", "a binding to a Role that is never created", p0(), []string{replaced(bindingTo, "NAME", "never", "KIND", "Role")}, `"never"`, "bind"),
		{number: "20b", title: "all cluster permissions of an account are removed with the CSV", holds: p3(), play: func(s *scene) {
			s.allow(func(c oracle.Change) bool {
				return c.Group == rbacv1.GroupName && c.Namespace == "" && c.How == "created"
			})
			s.install(bundleOf(csv().ClusterPermissions(forge.Entry("operator", `{apiGroups: [""], resources: [pods], verbs: [get]}`))))
			s.Succeeded(probeCSV)
			s.allow(nil) // nothing that the install created outside the namespace may remain
			s.uninstall()
			s.Eventually(func(c *assert.CollectT) {
				list := &rbacv1.ClusterRoleBindingList{}
				assert.NoError(c, cluster.Client.List(s.T.Context(), list, client.MatchingLabels{names.LabelOwnerNamespace: s.Namespace}))
				assert.Empty(c, list.Items)
				assert.Error(c, s.Get(probeCSV, &operatorsv1alpha1.ClusterServiceVersion{}))
			})
		}},
		manifests("21", "a PriorityClass for all Pods in the cluster", p1(), []string{
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: escape-first}, value: 1000000000, globalDefault: true}`,
		}, "priorityclasses", "at the cluster scope"),
		{number: "20c", title: "a ServiceAccount with the name of another bundle's ServiceAccount", holds: p0(), play: func(s *scene) {
			s.Create(&corev1.ServiceAccount{ObjectMeta: s.Meta("theirs")})
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: theirs}}`))
			s.planSays("ServiceAccount "+s.Namespace+"/theirs", collides)
			s.nothingWritten()
		}},
	}
}
