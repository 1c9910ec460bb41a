package rbac

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEscalationsFindsRulesThatGiveMorePermissions(t *testing.T) {
	const group = "rbac.authorization.k8s.io"
	for name, row := range map[string]struct {
		rules []string
		want  []string
	}{
		"everything":               {[]string{"* *:*"}, []string{"every verb on every resource"}},
		"bind by name":             {[]string{"bind " + group + ":clusterroles,roles [view]"}, []string{`"bind" on clusterroles`, `"bind" on roles`}},
		"escalate by name":         {[]string{"escalate " + group + ":roles [x]"}, []string{`"escalate" on roles`}},
		"every verb on roles":      {[]string{"* " + group + ":roles"}, []string{`"bind" on roles`, `"escalate" on roles`}},
		"verbs on every resource":  {[]string{"bind,get " + group + ":*"}, []string{`"bind" on clusterroles`, `"bind" on roles`}},
		"impersonate by name":      {[]string{"impersonate :serviceaccounts [x]"}, []string{`"impersonate" on serviceaccounts`}},
		"impersonate extra fields": {[]string{"impersonate authentication.k8s.io:userextras/scopes,uids"}, []string{`"impersonate" on uids`, `"impersonate" on userextras`}},
		"constrained impersonate":  {[]string{"impersonate:user-info authentication.k8s.io:users"}, []string{`"impersonate" on users`}},
		"every verb on users":      {[]string{"* :users"}, []string{`"impersonate" on users`}},
		"create tokens by name":    {[]string{"create :serviceaccounts/token [x]"}, []string{`"create" on serviceaccounts/token`}},
		"create tokens of any":     {[]string{"create :*/token"}, []string{`"create" on serviceaccounts/token`}},
		"create ServiceAccounts":   {[]string{"create :serviceaccounts", "get :serviceaccounts/token"}, nil},
		"other resources":          {[]string{"bind,escalate,impersonate :pods", "* apps:*", "get,create " + group + ":roles", "impersonate :users/status"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, Escalations(rules(row.rules...)))
		})
	}
}

func TestPowersFindsRulesThatAmountToClusterAdmin(t *testing.T) {
	const group = "rbac.authorization.k8s.io"
	for name, row := range map[string]struct {
		rules []string
		want  []string
	}{
		"everything":                        {[]string{"* *:*", "bind " + group + ":clusterroles"}, []string{"every verb on every resource"}},
		"escalate":                          {[]string{"escalate " + group + ":clusterroles,roles"}, []string{`"escalate" on clusterroles`, `"escalate" on roles`}},
		"escalate by name":                  {[]string{"escalate " + group + ":clusterroles [x]"}, []string{`"escalate" on clusterroles`}},
		"bind":                              {[]string{"bind " + group + ":clusterroles"}, []string{`"bind" on clusterroles`}},
		"bind cluster-admin":                {[]string{"bind " + group + ":clusterroles [cluster-admin]"}, []string{`"bind" on clusterroles`}},
		"bind another role":                 {[]string{"bind " + group + ":clusterroles [view]"}, nil},
		"bind existing Roles":               {[]string{"bind " + group + ":roles"}, nil},
		"impersonate":                       {[]string{"impersonate :users"}, []string{`"impersonate" on users`}},
		"impersonate a name":                {[]string{"impersonate :users,serviceaccounts [x]"}, nil},
		"impersonate system:masters":        {[]string{"impersonate :groups [system:masters]"}, []string{`"impersonate" on groups`}},
		"every verb on roles":               {[]string{"* " + group + ":clusterroles"}, []string{`"bind" on clusterroles`, `"escalate" on clusterroles`}},
		"create tokens":                     {[]string{"create :serviceaccounts/token"}, []string{`"create" on serviceaccounts/token`}},
		"create every core resource":        {[]string{"create :*"}, []string{`"create" on nodes/proxy`, `"create" on serviceaccounts/token`}},
		"create tokens by name":             {[]string{"create :serviceaccounts/token [x]"}, nil},
		"send requests to kubelets":         {[]string{"create :nodes/proxy"}, []string{`"create" on nodes/proxy`}},
		"approve certificates":              {[]string{"approve certificates.k8s.io:signers"}, []string{`"approve" on signers`}},
		"approve client certificates":       {[]string{"approve certificates.k8s.io:signers [kubernetes.io/kube-apiserver-client]"}, []string{`"approve" on signers`}},
		"approve other certificates":        {[]string{"approve certificates.k8s.io:signers [example.com/x]"}, nil},
		"every verb on part of the cluster": {[]string{"* apps:*", "get *:*", "* *:pods"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.want, Powers(rules(row.rules...)))
		})
	}
}
