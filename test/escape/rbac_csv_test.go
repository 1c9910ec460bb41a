package escape

import (
	"fmt"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	all      = `{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`
	readMaps = `{apiGroups: [""], resources: [configmaps], verbs: [get]}`

	succeeded = operatorsv1alpha1.CSVPhaseSucceeded
	pending   = operatorsv1alpha1.CSVPhasePending
	failed    = operatorsv1alpha1.CSVPhaseFailed
)

// asks returns a row whose CSV requests permissions that the account does not have.
func asks(number, title string, holds profile, c func() forge.CSV, words ...string) row {
	return row{number: number, title: title, holds: holds, play: func(s *scene) {
		s.install(bundleOf(c()))
		s.isMissing(words...)
	}}
}

// permits returns a function that builds a CSV that requests the rules for its ServiceAccount in the target namespaces.
func permits(rules ...string) func() forge.CSV {
	return func() forge.CSV { return csv().Permissions(forge.Entry(forge.ServiceAccount, rules...)) }
}

func clusterPermits(rules ...string) func() forge.CSV {
	return func() forge.CSV { return csv().ClusterPermissions(forge.Entry(forge.ServiceAccount, rules...)) }
}

func rbacInCSV() []row {
	rows := []row{
		{number: "0", title: "a harmless bundle installs under P0", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Complete()
			s.Succeeded(probeCSV)
		}},
		asks("1", "clusterPermissions on everything", p0(), clusterPermits(all), "at the cluster scope", `cannot create resource "*"`),
		asks("1a", "clusterPermissions on all URLs", p1(), clusterPermits(`{nonResourceURLs: ["*"], verbs: ["*"]}`), "nonResourceURLs"),
		asks("2", "permissions with one verb that the account does not have", p0(),
			permits(`{apiGroups: [""], resources: [secrets], verbs: [get, deletecollection]}`), "deletecollection", "secrets"),
		asks("2a", "all verbs, of which the account has seven", p0(), permits(`{apiGroups: [""], resources: [configmaps], verbs: ["*"]}`), "cannot * resource", "configmaps"),
		asks("2b", "the verbs that bypass the bound", p0(), permits(
			`{apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [escalate, bind]}`,
			`{apiGroups: [""], resources: [serviceaccounts], verbs: [impersonate]}`), "escalate", "bind", "impersonate"),
		asks("2c", "subresources that no rule of the account names", p0(),
			permits(`{apiGroups: [""], resources: ["pods/exec", "serviceaccounts/token"], verbs: [create]}`), "pods/exec", "serviceaccounts/token"),
		{number: "2d", title: "10,000 rules", holds: p0(), directory: manyRules, play: func(s *scene) {
			s.installDirectory()
			message := s.isMissing("The full report is in ConfigMap")
			require.Less(s.T, len(message), 33<<10)
			require.Contains(s.T, statusText(s.T, s.report().Data), "resource-9999")
		}},
		{number: "4", title: "permissions that the account has in one of two targets", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace, neighbor)
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.isMissing(fmt.Sprintf("in the namespace %q", neighbor))
		}},
		{number: "4a", title: "a second target after the install", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv()))
			s.Succeeded(probeCSV)
			s.retarget(s.Namespace, neighbor)
			s.csvSays(succeeded, "ExceedsAccount", "in namespace "+neighbor) // the operator gets no permissions there
		}},
		{number: "5", title: "kube-system as the only target", holds: p0(), play: func(s *scene) {
			s.group("kube-system")
			s.publish(bundleOf(csv()))
			s.subscribe()
			s.isMissing(`in the namespace "kube-system"`)
			s.GroupSays(groupName, "TargetNotAllowed", metav1.ConditionTrue, "AccountHoldsNothing", "kube-system")
		}},
		{number: "7", title: "permissions for the default ServiceAccount", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv().Permissions(forge.Entry("default", readMaps)).PodSpec("default", "serviceAccountName")))
			s.Succeeded(probeCSV)
			s.Eventually(func(c *assert.CollectT) {
				assert.Contains(c, statusText(c, s.CSV(c, probeCSV)), "all Pods without a serviceAccountName")
			})
			bindings := &rbacv1.RoleBindingList{}
			s.list(bindings)
			for _, b := range bindings.Items {
				for _, subject := range b.Subjects {
					if subject.Name == "default" {
						require.Equal(s.T, probeCSV, b.Labels["olm.owner"])
					}
				}
			}
		}},
		asks("7a", "permissions that the account does not have, for the default ServiceAccount", p0(), func() forge.CSV {
			return csv().Permissions(forge.Entry("default", `{apiGroups: [""], resources: ["pods/exec"], verbs: [create]}`))
		}, "pods/exec"),
		asks("11", "a second entry that differs only in case", p0(), func() forge.CSV {
			return csv().Permissions(
				forge.Entry("operator", `{apiGroups: [""], resources: [secrets], verbs: [get]}`),
				forge.Entry("operator", `{apiGroups: [""], resources: [Secrets], verbs: [get, "*"]}`))
		}, "Secrets"),
		asks("11a", "resources that look like wildcards", p0(), permits(
			`{apiGroups: [""], resources: ["pods/*", "*/*", "config*"], verbs: [get]}`), "*/*", "config*"),
	}
	for i, name := range []string{"../x", strings.Repeat("n", 300), "", "öperator", "a/b", "operator\nbind"} {
		number := "8" + letter(i)
		rows = append(rows, row{number: number, title: fmt.Sprintf("serviceAccountName %.12q", name), holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv().Permissions(forge.Entry(name, readMaps))))
			s.refused("serviceAccountName")
		}}, row{number: number + "-direct", title: fmt.Sprintf("serviceAccountName %.12q in a CSV that a tenant creates", name), holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			require.NoError(s.T, s.apply(s.mallory(), csv().Permissions(forge.Entry(name, readMaps)).Object))
			s.invalidStrategy("serviceAccountName")
		}})
	}
	for i, rule := range []string{
		`{resources: [pods], verbs: [get]}`, `{apiGroups: [], resources: [pods], verbs: [get]}`,
		`{apiGroups: [""], resources: [pods], verbs: []}`, `{apiGroups: [""], resources: [pods]}`, `{apiGroups: [""], verbs: [get]}`,
		`{nonResourceURLs: ["/metrics"], verbs: [get]}`, `{}`,
	} {
		number := "10" + letter(i)
		rows = append(rows, row{number: number, title: "the rule " + rule, holds: p1(), play: func(s *scene) {
			s.install(bundleOf(permits(rule)()))
			s.refused("rule")
		}}, row{number: number + "-direct", title: "the rule " + rule + " in a CSV that a tenant creates", holds: p1(), play: func(s *scene) {
			s.group(s.Namespace)
			err := s.apply(s.mallory(), permits(rule)().Object)
			if err != nil { // the API server refuses the CSV, so Remit never reads it
				require.ErrorContains(s.T, err, "spec.install.spec.permissions")
				return
			}
			s.invalidStrategy("rule")
		}})
	}
	return rows
}

// letter returns the suffix of the i-th row with the same number: "" for the first, then letters.
func letter(i int) string {
	if i == 0 {
		return ""
	}
	return string(rune('a' + i - 1))
}

// manyRules returns a catalog with a CSV that requests 10,000 rules.
func manyRules() string {
	var rules []string
	for i := range 10_000 {
		rules = append(rules, fmt.Sprintf(`{apiGroups: [""], resources: [resource-%d], verbs: [get]}`, i))
	}
	return forge.Catalog(bundleOf(permits(rules...)()))
}

// invalidStrategy waits until the CSV has failed permanently with a message that contains the words, and asserts that
// nothing was created.
func (s *scene) invalidStrategy(words ...string) {
	s.T.Helper()
	csv := s.csvSays(failed, words...)
	require.Equal(s.T, operatorsv1alpha1.CSVReasonInvalidStrategy, csv.Status.Reason)
	s.nothingWritten()
}

// retarget changes the OperatorGroup's targets. No targets means all namespaces.
func (s *scene) retarget(targets ...string) {
	s.T.Helper()
	s.regroup(cluster.Client, func(og *operatorsv1.OperatorGroup) { og.Spec.TargetNamespaces = targets })
}

// regroup edits the OperatorGroup with the given client.
func (s *scene) regroup(c client.Client, edit func(og *operatorsv1.OperatorGroup)) {
	s.T.Helper()
	og := &operatorsv1.OperatorGroup{}
	require.NoError(s.T, s.Get(groupName, og))
	before := og.DeepCopy()
	edit(og)
	require.NoError(s.T, c.Patch(s.T.Context(), og, client.MergeFrom(before)))
}
