package operatorgroup

import (
	"fmt"
	"strings"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const serviceAccountPrefix = "system:serviceaccount:"

// enrolHelp says what is missing and what to paste.
func enrolHelp(account scoped.Account, users []string) string {
	var subjects strings.Builder
	shown := make([]string, 0, len(users))
	for _, user := range users {
		namespace, name, ok := strings.Cut(strings.TrimPrefix(user, serviceAccountPrefix), ":")
		if !ok {
			fmt.Fprintf(&subjects, "- {kind: User, apiGroup: rbac.authorization.k8s.io, name: %q}\n", user)
			shown = append(shown, user)
			continue
		}
		fmt.Fprintf(&subjects, "- {kind: ServiceAccount, namespace: %s, name: %s}\n", namespace, name)
		shown = append(shown, namespace+"/"+name)
	}
	return fmt.Sprintf(enrolText, account.Key(), strings.Join(shown, " and "), account.Name, account.Namespace) + subjects.String()
}

const enrolText = `ServiceAccount %[1]s is not enrolled: %[2]s may not request a token for it. Whoever may grant that applies:
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: remit-enrolment-%[3]s, namespace: %[4]s}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [%[3]s], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: remit-enrolment-%[3]s, namespace: %[4]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: remit-enrolment-%[3]s}
subjects:
`
