package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeAnswersEachWorldWithALine(t *testing.T) {
	const world = `{
		"ClusterRoles": [{"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}],
		"RoleBindings": [{
			"metadata": {"namespace": "t1", "name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "r"},
			"subjects": [{"kind": "ServiceAccount", "name": "acct"}]
		}],
		"Questions": [
			{"User": "system:serviceaccount:t1:acct", "Namespace": "t1", "Rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
			 "Requests": [{"Verb": "get", "Resource": "pods", "Namespace": "t1"}, {"Verb": "get", "Resource": "pods", "Namespace": "t2"}, {"Verb": "get", "Path": "/x", "URL": true}]},
			{"User": "system:serviceaccount:t1:acct", "Rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
		]
	}`
	var out strings.Builder
	require.NoError(t, serve(strings.NewReader(world+`{}`), &out))
	require.Equal(t, `[{"Covered":true,"Wanted":"110","Allowed":"100"},{"Covered":false,"Wanted":"","Allowed":""}]`+"\n[]\n", out.String())
	require.ErrorContains(t, serve(strings.NewReader("{"), &out), "unexpected EOF")
}
