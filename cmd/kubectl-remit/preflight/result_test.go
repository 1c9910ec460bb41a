package preflight

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// injected is a text that opens a YAML document with a binding to cluster-admin.
const injected = "list them\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: injected}\n" +
	"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: stranger}]\n...\n#\u202e"

// decodeAll returns the objects that kubectl apply would read.
func decodeAll(t *testing.T, text []byte) (out []*unstructured.Unstructured) {
	t.Helper()
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err, "%s", text)
		out = append(out, obj)
	}
}

func TestYAMLConsistsOnlyOfTheGrant(t *testing.T) {
	report := preflight.Report{
		Identity: scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "team-a", Name: "installer"}),
		Findings: []preflight.Finding{{Namespace: "team-a", Cause: injected, Missing: []rbacv1.PolicyRule{{
			Verbs: []string{"get", injected}, APIGroups: []string{injected}, Resources: []string{injected}, ResourceNames: []string{injected},
		}}}},
		Unknown: []preflight.Finding{{Namespace: "team-a", Cause: injected, Why: injected}},
		Refused: []preflight.Refusal{{Object: injected, Message: injected}},
		Notes:   []string{injected},
		InUse:   []message.Text{message.Line(injected)},
		Details: message.Line(injected),
	}
	r := &result{input: &input{what: injected, from: fromBundle, identity: report.Identity, namespace: "team-a"}, report: report}
	want := make([]*unstructured.Unstructured, 0, 2)
	for _, obj := range report.Objects() {
		u, err := apply.Object(obj)
		require.NoError(t, err)
		want = append(want, u)
	}
	require.Len(t, want, 2)
	var out, notes bytes.Buffer
	require.NoError(t, r.print(cli.NewWriter(&out), cli.NewWriter(&notes), cli.YAML))
	require.Equal(t, want, decodeAll(t, out.Bytes()))
	require.Contains(t, notes.String(), "is missing 1 permission")

	out.Reset()
	require.NoError(t, r.print(cli.NewWriter(&out), io.Discard, formatReport))
	require.Len(t, decodeAll(t, out.Bytes()), 1, "%s", out.String())
}

// What a grant does not change is an error of the command grant.
func TestRefusedObjectsRemainWhenEverythingIsGranted(t *testing.T) {
	r := &result{input: &input{what: "InstallPlan ns/p"}}
	require.NoError(t, r.missing("").Refused)
	r.report.Refused = []preflight.Refusal{{Object: "Deployment ns/d", Message: "exceeded quota"}}
	err := r.missing("").Refused
	require.ErrorContains(t, err, "InstallPlan ns/p cannot be installed: the grant does not change that 1 object(s) are refused: Deployment ns/d: exceeded quota")
	require.Equal(t, cli.CodeMissing, cli.ExitCode(err))
}

// Other users can change the report of a plan.
func TestAReportIsNoBasisForObjects(t *testing.T) {
	report := reportOf(scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "team-a", Name: "acct"}), preflight.Document{Missing: []preflight.ScopeDocument{{
		Namespace: "team-a", Rules: []preflight.RuleDocument{{Rule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}, Causes: []string{"create ConfigMap demo"}}},
	}}})
	for from, want := range map[string]error{fromReport: errReported, fromSteps: nil} {
		r := &result{input: &input{what: "InstallPlan a", from: from, identity: report.Identity, namespace: "team-a"}, report: *report}
		var out, errOut bytes.Buffer
		require.ErrorIs(t, r.print(&out, &errOut, cli.YAML), want)
		require.Equal(t, want != nil, out.Len() == 0)
		out.Reset()
		require.NoError(t, r.print(&out, &errOut, cli.Text))
		require.Contains(t, out.String(), "To print the RBAC that grants this, add "+r.grantOptions()+".")
	}
}
