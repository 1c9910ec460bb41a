package node

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/controlplane/internal/network"
)

func TestAPodKeepsItsAddressAndReleasedAddressesAreReusedLast(t *testing.T) {
	var net network.PodNet
	a := newAddresses(net)
	first, err := a.assign("a", "")
	require.NoError(t, err)
	same, err := a.assign("a", "")
	require.NoError(t, err)
	require.Equal(t, first, same)
	claimed, err := a.assign("b", net.Pod(3, 4).String())
	require.NoError(t, err)
	require.Equal(t, net.Pod(3, 4), claimed)
	other, err := a.assign("c", net.Pod(3, 4).String())
	require.NoError(t, err)
	require.NotEqual(t, claimed, other, "the address is in use")
	a.release(types.UID("a"))
	next, err := a.assign("d", "")
	require.NoError(t, err)
	require.NotEqual(t, first, next)
}

func TestSeekTail(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	for _, test := range []struct {
		name, content, want string
		lines               int
	}{
		{name: "returns the last lines", content: "a\nb\nc\n", lines: 2, want: "b\nc\n"},
		{name: "counts an unfinished line", content: "a\nb\nc", lines: 2, want: "b\nc"},
		{name: "returns all lines", content: "a\n", lines: 5, want: "a\n"},
		{name: "returns nothing for zero lines", content: "a\n", lines: 0, want: ""},
		{name: "reads more than one block", content: "a\n" + long + "\nc\n", lines: 2, want: long + "\nc\n"},
		{name: "accepts an empty file", lines: 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			require.NoError(t, os.WriteFile(file, []byte(test.content), 0o600))
			f, err := os.Open(file)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			require.NoError(t, seekTail(f, test.lines))
			got, err := io.ReadAll(f)
			require.NoError(t, err)
			require.Equal(t, test.want, string(got))
		})
	}
}
