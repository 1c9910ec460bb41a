package group_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/lib/group"
)

func TestClassifiesGroups(t *testing.T) {
	for name, want := range map[string]struct{ own, protected bool }{
		"operators.coreos.com":          {true, true},
		"Operators.CoreOS.com":          {true, true},
		"packages.operators.coreos.com": {true, true},
		"x.operators.coreos.com":        {true, true},
		"a.b.olm.operatorframework.io":  {true, true},
		"remit.dev":                     {true, true},
		"sample.remit.dev":              {false, false},
		"":                              {false, true},
		"apps":                          {false, true},
		"k8s.io":                        {false, true},
		"x.K8S.io":                      {false, true},
		"x.y.kubernetes.io":             {false, true},
		"coreos.com":                    {false, false},
		"monitoring.coreos.com":         {false, false},
		"notoperators.coreos.com":       {false, false},
		"medik8s.io":                    {false, false},
		"operators.coreos.com.evil.io":  {false, false},
	} {
		require.Equal(t, want.own, group.Own(name), name)
		require.Equal(t, want.protected, group.Protected(name), name)
	}
	for name, want := range map[string]bool{
		"gateway.networking.k8s.io": true, "App.K8S.io": true, "k8s.io": false, "cluster.x-k8s.io": false, "a.kubernetes.io": false, "k8s.io.evil.io": false,
	} {
		require.Equal(t, want, group.Community(name), name)
	}
	require.True(t, group.Same("Acme.io", "acme.io"))
	require.False(t, group.Same("acme.io", "x.acme.io"))
}
