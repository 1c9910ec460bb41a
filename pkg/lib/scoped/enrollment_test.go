package scoped

import (
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
)

// The name of an author's Role determines who can be bound to it, so two authors must not share a Role.
func TestEachAuthorHasADifferentRole(t *testing.T) {
	roles := map[string]rbacv1.Subject{}
	for want, author := range map[string]rbacv1.Subject{
		"alice@example.com":                {Kind: rbacv1.UserKind, Name: "alice@example.com"},
		"system:serviceaccount:ci:builder": {Kind: rbacv1.UserKind, Name: "system:serviceaccount:ci:builder"},
		"o-dd":                             {Kind: rbacv1.UserKind, Name: "o-dd"},
		"o~1dd":                            {Kind: rbacv1.UserKind, Name: "o/dd"},
		"o~2dd":                            {Kind: rbacv1.UserKind, Name: "o%dd"},
		"o~01dd":                           {Kind: rbacv1.UserKind, Name: "o~1dd"},
		"group:x":                          {Kind: rbacv1.GroupKind, Name: "x"},
		"group:group:x":                    {Kind: rbacv1.GroupKind, Name: "group:x"},
		"user:group:x":                     {Kind: rbacv1.UserKind, Name: "group:x"},
		"user:user:group:x":                {Kind: rbacv1.UserKind, Name: "user:group:x"},
		"group:user:group:x":               {Kind: rbacv1.GroupKind, Name: "user:group:x"},
	} {
		got := Authorship(types.NamespacedName{Namespace: "n", Name: "acct"}, author)[0].GetName()
		require.Equal(t, "remit-author-acct:"+want, got)
		require.Empty(t, content.IsPathSegmentName(got))
		require.NotContains(t, roles, got, author)
		roles[got] = author
	}
}
