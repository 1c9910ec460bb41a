package escape

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/remit-olm/remit/test/escape/forge"
)

const (
	// hugeNames is the number of resourceNames in a hostile rule.
	hugeNames = 40_000
	// hugeCSVs is a number of CSVs that exceeds the number of workers of each controller.
	hugeCSVs = 6
)

// budgets returns rows about the cost of evaluating rules.
func budgets() []row {
	return []row{
		{number: "150", title: "a bundle whose CSV has a rule with 40,000 resourceNames", holds: p1(), directory: func() string {
			return forge.Catalog(bundleOf(csv().Permissions(forge.Entry(forge.ServiceAccount, reads("endpoints", 0, hugeNames)))))
		}, play: func(s *scene) {
			s.installDirectory()
			s.refused("rule 1 has 40000 resourceNames; at most 1000 are allowed")
		}},
		{number: "150a", title: "six CSVs, each with a rule with 40,000 resourceNames", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			s.huge(reads("endpoints", 0, hugeNames))
			s.eachHuge("rule 1 has 40000 resourceNames")
		}},
		{number: "150b", title: "six CSVs, each with 40 rules with 1,000 resourceNames, for an account that has all of these permissions but one", holds: p0(), play: func(s *scene) {
			s.bind(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.Namespace, Name: accountName}, "many", profile{own: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: []string{"get"}, ResourceNames: manyNames(0, hugeNames),
			}}})
			s.group(s.Namespace)
			var rules []string
			for i := 1; i <= hugeNames; i += 1_000 {
				rules = append(rules, reads("endpoints", i, 1_000))
			}
			s.huge(rules...)
			s.eachHuge(fmt.Sprintf("n%d", hugeNames))
		}},
	}
}

func manyNames(first, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("n%d", first+i)
	}
	return out
}

// reads returns a rule that allows getting n objects by name.
func reads(resource string, first, n int) string {
	return fmt.Sprintf(`{apiGroups: [""], resources: [%s], verbs: [get], resourceNames: [%s]}`, resource, strings.Join(manyNames(first, n), ", "))
}

func hugeName(i int) string { return fmt.Sprintf("huge%d.v1.0.0", i) }

// huge creates hugeCSVs CSVs with these permissions as a tenant.
func (s *scene) huge(rules ...string) {
	s.T.Helper()
	mallory := s.mallory()
	for i := range hugeCSVs {
		name := fmt.Sprint("huge", i)
		c := forge.NewCSV(hugeName(i)).RenameObjects(name).Permissions(forge.Entry(name, rules...))
		require.NoError(s.T, s.apply(mallory, c.Object))
	}
}

// eachHuge waits until the message of each CSV that huge created contains the words, and asserts that there are no
// Deployments.
func (s *scene) eachHuge(words string) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) {
		for i := range hugeCSVs {
			got := s.CSV(c, hugeName(i)).Status
			assert.NotEqual(c, succeeded, got.Phase)
			assert.Contains(c, statusText(c, got), words)
		}
	})
	s.noDeployments()
}
