package operatorgroup

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// enrollHelp describes which users are not enrolled, and the command or manifest that enrolls them. The manifest names
// both programs even if only one is missing, because applying a RoleBinding removes subjects that it does not list.
func enrollHelp(account scoped.Account, users []string) message.Text {
	shown := make([]string, 0, len(users))
	namespace := ""
	for _, user := range users {
		home, name, err := serviceaccount.SplitUsername(user)
		if err != nil { // not a ServiceAccount, so it is the only user that is checked
			return enrollText(account, user, "", scoped.EnrollmentOf(account.Key(), rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}))
		}
		shown = append(shown, home+"/"+name)
		namespace = home
	}
	command := fmt.Sprintf("run kubectl remit enroll %s -n %s", account.Name, account.Namespace)
	if namespace != names.DefaultNamespace {
		command += " --remit-namespace " + namespace
	}
	return enrollText(account, strings.Join(shown, " and "), command+", or ", scoped.Enrollment(account.Key(), namespace))
}

func enrollText(account scoped.Account, users, command string, enrollment []client.Object) message.Text {
	documents, err := message.Documents(enrollment...)
	if err != nil {
		documents = "" // cannot happen: these objects contain only strings
	}
	return message.Lines(message.Sprintf("ServiceAccount %s is not enrolled: %s cannot request tokens for it. An administrator of the namespace can %sapply:",
		account.Key(), users, command), documents)
}
