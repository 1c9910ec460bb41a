package operatorgroup

import (
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// enrollHelp describes which users are not enrolled, and the command or manifest that enrolls them. The manifest names
// both programs even if only one is missing, because applying a RoleBinding removes subjects that it does not list.
func enrollHelp(account scoped.Account, users []string) string {
	shown := make([]string, 0, len(users))
	namespace := ""
	for _, user := range users {
		home, name, err := serviceaccount.SplitUsername(user)
		if err != nil { // not a ServiceAccount, so it is the only user that is checked
			return fmt.Sprintf(enrollText, account.Key(), user, "", account.Name, account.Namespace) +
				fmt.Sprintf("- {kind: User, apiGroup: rbac.authorization.k8s.io, name: %q}\n", user)
		}
		shown = append(shown, home+"/"+name)
		namespace = home
	}
	command := fmt.Sprintf("kubectl remit enroll %s -n %s", account.Name, account.Namespace)
	if namespace != names.DefaultNamespace {
		command += " --remit-namespace " + namespace
	}
	return fmt.Sprintf(enrollText, account.Key(), strings.Join(shown, " and "), "run "+command+", or ", account.Name, account.Namespace) +
		fmt.Sprintf("- {kind: ServiceAccount, namespace: %[1]s, name: %[2]s}\n- {kind: ServiceAccount, namespace: %[1]s, name: %[3]s}\n",
			namespace, names.ServiceAccountCatalog, names.ServiceAccountOLM)
}

const enrollText = `ServiceAccount %[1]s is not enrolled: %[2]s cannot request tokens for it. An administrator of the namespace can %[3]sapply:
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: remit-enrollment-%[4]s, namespace: %[5]s}
rules:
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [%[4]s], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: remit-enrollment-%[4]s, namespace: %[5]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: remit-enrollment-%[4]s}
subjects:
`
