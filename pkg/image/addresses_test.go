package image

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTenantsCannotReachPrivateAddressesUnlessAllowed(t *testing.T) {
	allowed, err := ParsePrivate([]string{"10.8.0.0/16", "fd00:1::/32", "registry.local", "other.local:5000", "127.0.0.9/32"})
	require.NoError(t, err)
	for at, want := range map[string]string{
		"10.8.1.1": "", "::ffff:10.8.1.1": "", "64:ff9b::10.8.1.1": "", "fd00:1::1": "", "127.0.0.9": "",
		"8.8.8.8": "", "2606:4700::1": "", "64:ff9b::8.8.8.8": "",
		"10.9.0.1": "private", "172.16.0.1": "private", "192.168.1.1": "private", "100.64.0.1": "private", "168.63.129.16": "private",
		"fd00:2::1": "private", "fec0::1": "private", "64:ff9b::10.0.0.1": "private", "2002:0a00:0001::": "private", "::ffff:192.168.0.1": "private",
		"::10.0.0.1": "private", "0.1.2.3": "private", "255.255.255.255": "private", "198.18.0.1": "private", "240.0.0.1": "private",
		"127.0.0.1": "loopback", "169.254.169.254": "loopback", "::1": "loopback", "fe80::1%eth0": "loopback",
		"64:ff9b::169.254.169.254": "loopback", "0.0.0.0": "loopback", "224.0.0.1": "loopback",
	} {
		err := allowed.refuse("registry", netip.MustParseAddr(at))
		if want == "" {
			require.NoError(t, err, at)
			continue
		}
		require.ErrorContains(t, err, want, at)
	}
	for asked, want := range map[string]bool{"registry.local:443": true, "registry.local:5000": true, "other.local:5000": true, "other.local:443": false, "x.registry.local:443": false} {
		require.Equal(t, want, allowed.names(asked), asked)
	}
	for _, wrong := range []string{"", "10.0.0.0/33", "a b", "registry/path"} {
		_, err := ParsePrivate([]string{wrong})
		require.Error(t, err, wrong)
	}
}

func TestChecksPrivateAddressesWhenDialing(t *testing.T) {
	never := func(string) bool { return false }
	check := guard(never, Private{})
	require.ErrorContains(t, check("registry.example.com:443", "10.0.0.1:443"), "--private-registry")
	require.NoError(t, check("registry.example.com:443", "8.8.8.8:443"))
	c, err := New(Options{Mirrors: []Mirror{{Source: "quay.io", Target: "mirror.local:5000/quay"}}})
	require.NoError(t, err)
	require.True(t, c.guarded.allowed.names("mirror.local:5000"), "mirrors are always allowed")
}
