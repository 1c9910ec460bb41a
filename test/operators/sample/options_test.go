package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptionsFromEnv(t *testing.T) {
	for _, tc := range []struct {
		name, watch, listenIP string
		wantNamespaces        []string
		wantAddress           string
	}{
		{name: "all namespaces", wantAddress: "0.0.0.0:8081"},
		{name: "one namespace", watch: "team", wantNamespaces: []string{"team"}, wantAddress: "0.0.0.0:8081"},
		{name: "a list", watch: "a, b,", wantNamespaces: []string{"a", "b"}, wantAddress: "0.0.0.0:8081"},
		{name: "on the embedded control plane", listenIP: "127.3.0.5", wantAddress: "127.3.0.5:8081"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := map[string]string{envWatchNamespace: tc.watch, envListenIP: tc.listenIP}
			opts := optionsFromEnv(func(key string) string { return env[key] })

			require.ElementsMatch(t, tc.wantNamespaces, slices.Collect(maps.Keys(opts.namespaces)))
			require.Equal(t, tc.wantNamespaces == nil, opts.namespaces == nil, "nil means all")
			require.Equal(t, tc.wantAddress, opts.healthAddress)
		})
	}
}
