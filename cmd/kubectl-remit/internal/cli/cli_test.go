package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

func TestExitCodes(t *testing.T) {
	failed := errors.New("failed")
	for want, err := range map[int]error{
		0:           nil,
		CodeMissing: fmt.Errorf("wrapped: %w", Missing()),
		CodeError:   failed,
		7:           &ExitError{Code: 7, Err: failed},
	} {
		require.Equal(t, want, ExitCode(err))
	}
	require.Empty(t, Missing().Error(), "the command has already printed what is missing")
	require.ErrorIs(t, &ExitError{Code: 7, Err: failed}, failed)
}

func TestParsesTheOutputFlag(t *testing.T) {
	var f Format
	cmd := &cobra.Command{Use: "x"}
	f.AddFlag(cmd)
	require.Equal(t, Text, f)
	require.NoError(t, cmd.ParseFlags([]string{"-o", "json"}))
	require.Equal(t, JSON, f)
	require.ErrorContains(t, cmd.ParseFlags([]string{"-o", "wide"}), "must be one of text, yaml, json")
}

func TestEncodesObjectsLikeKubectl(t *testing.T) {
	objs := []client.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Name: "b"}},
	}
	var out bytes.Buffer
	require.NoError(t, YAML.EncodeObjects(&out, objs))
	require.Equal(t, "---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: b\n", out.String())

	out.Reset()
	require.NoError(t, JSON.EncodeObjects(&out, objs))
	list := &corev1.ServiceAccountList{}
	require.NoError(t, yaml.Unmarshal(out.Bytes(), list))
	require.Equal(t, "List", list.Kind)
	require.Len(t, list.Items, 2)
}

func TestReportsAMissingKubeconfig(t *testing.T) {
	c := NewCluster()
	cmd := &cobra.Command{Use: "x"}
	c.AddFlags(cmd)
	require.NoError(t, cmd.ParseFlags([]string{"--kubeconfig=/nonexistent/config"}))
	_, err := c.Client(&bytes.Buffer{})
	require.ErrorContains(t, err, "kubeconfig: ")
	_, err = c.Namespace()
	require.ErrorContains(t, err, "kubeconfig: ")
}

func TestScopeSelectsNamespaces(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string
		all  bool
	}{
		"one":              {args: []string{"-n", "team-a"}},
		"all":              {args: []string{"-A"}, all: true},
		"both":             {args: []string{"-A", "-n", "team-a"}, want: "--all-namespaces and --namespace are mutually exclusive"},
		"no valid name":    {args: []string{"--remit-namespace=Remit"}, want: "--remit-namespace=Remit: "},
		"another Remit":    {args: []string{"--remit-namespace=platform"}},
		"the empty string": {args: []string{"--remit-namespace="}, want: "--remit-namespace=: "},
	} {
		t.Run(name, func(t *testing.T) {
			s, cluster, cmd := &Scope{}, NewCluster(), &cobra.Command{Use: "x"}
			s.AddFlags(cmd, "all")
			cluster.AddFlags(cmd)
			require.NoError(t, cmd.ParseFlags(row.args))
			err := s.Validate(cmd)
			if row.want != "" {
				require.ErrorContains(t, err, row.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.all, s.AllNamespaces)
		})
	}
}

// The Writer replaces characters that a terminal interprets. Programs must read the original ones.
func TestTheWriterDoesNotChangeEncodedObjects(t *testing.T) {
	for _, text := range []string{"Grüße\n---\nkind: \u202eX", "\u2028\x1b[0m\x7f\u0085\U000e0001 {}#"} {
		want := corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"text": text}}}
		var out bytes.Buffer
		require.NoError(t, YAML.EncodeObjects(NewWriter(&out), []client.Object{&want}))
		got := corev1.ServiceAccount{}
		require.NoError(t, yaml.UnmarshalStrict(out.Bytes(), &got))
		require.Equal(t, want, got)

		out.Reset()
		require.NoError(t, JSON.EncodeObjects(NewWriter(&out), []client.Object{&want}))
		var list struct{ Items []corev1.ServiceAccount }
		require.NoError(t, json.Unmarshal(out.Bytes(), &list))
		require.Equal(t, []corev1.ServiceAccount{want}, list.Items)
	}
}
