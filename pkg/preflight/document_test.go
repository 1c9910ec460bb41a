package preflight

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/execute"
)

func document(t *testing.T, r Report) Document {
	t.Helper()
	files, err := r.Files()
	require.NoError(t, err)
	var d Document
	require.NoError(t, yaml.UnmarshalStrict([]byte(files[FileReport]), &d))
	return d
}

func TestReportsCausesAndSourcesOfEachRule(t *testing.T) {
	confirmed := requestOf("apply Secret ns/x", "secrets", "get", "patch")
	confirmed.Source = SourceReview
	unknown := requestOf("apply Role ns/x", "roles", "get")
	unknown.Why = "undecided"
	d := document(t, Report{
		Identity: bounded,
		Findings: []Finding{confirmed, requestOf("remove Secret ns/x", "secrets", "delete"), requestOf("again", "secrets", "get")},
		Unknown:  []Finding{unknown, {Cause: "dry run of Pod ns/x", Source: SourceDryRun, Why: "the API server is down"}},
		Refused:  []Refusal{{Object: "Pod ns/x", Message: "no"}},
		Notes:    []string{"a note"},
	})
	require.Equal(t, Document{
		Account: "ns/installer",
		Missing: []ScopeDocument{{Namespace: "ns", Rules: []RuleDocument{{
			Rule:   rbacv1.PolicyRule{Verbs: []string{"delete", "get", "patch"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"x"}},
			Causes: []string{"again", "apply Secret ns/x", "remove Secret ns/x"}, Sources: []Source{SourceRBAC, SourceReview},
		}}}},
		Unknown: []ScopeDocument{{Namespace: "ns", Rules: []RuleDocument{{
			Rule:   rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"roles"}, ResourceNames: []string{"x"}},
			Causes: []string{"apply Role ns/x"}, Sources: []Source{SourceRBAC}, Why: "undecided",
		}}}},
		Refused: []Refusal{{Object: "Pod ns/x", Message: "no"}},
		Notes:   []string{"a note", "dry run of Pod ns/x: the API server is down"},
	}, d)
}

// incompressible returns n rules, no two of which can be merged.
func incompressible(n int) []rbacv1.PolicyRule {
	out := make([]rbacv1.PolicyRule, n)
	for i := range out {
		out[i] = may("get", fmt.Sprintf("group-%d.example.com", i), fmt.Sprintf("things-%d", i), fmt.Sprintf("name-%d", i))
	}
	return out
}

func TestAReportFitsAConfigMapAndCountsOmissions(t *testing.T) {
	const rules = 10_000
	report := Report{Identity: bounded, Findings: []Finding{{Namespace: "ns", Missing: incompressible(rules), Granted: true, Cause: "grant it", Source: SourceRBAC}}}
	files, err := report.Files()
	require.NoError(t, err)
	require.LessOrEqual(t, len(files[FileGrant])+len(files[FileReport]), MaxFiles)
	require.Greater(t, len(files[FileGrant])+len(files[FileReport]), MaxFiles*2/3, "the report uses most of the limit")

	d := document(t, report)
	require.Equal(t, rules, len(d.Missing[0].Rules)+d.LeftOut)
	kept := strings.Count(files[FileGrant], "- apiGroups:")
	require.Contains(t, files[FileGrant], fmt.Sprintf("# %d rule(s) were omitted because of the size limit: kubectl remit preflight prints all of them.\n", rules-kept))

	all := string(report.Manifests())
	require.Equal(t, rules, strings.Count(all, "- apiGroups:"))
	for _, object := range strings.Split(all, "---\n")[1:] {
		require.LessOrEqual(t, len(object), 2*MaxGrantObject, "kubectl apply keeps a copy of at most 256 KiB")
	}
	summary := string(report.Summary())
	require.LessOrEqual(t, len(summary), MaxSummary)
	require.Contains(t, summary, "ServiceAccount ns/installer is missing 10000 permissions; nothing was written.")
}

func TestSplitsARuleThatIsTooLongForOneRole(t *testing.T) {
	long := may("get", "", "x")
	for i := range 8_000 {
		long.Resources = append(long.Resources, fmt.Sprintf("things-%d", i))
	}
	rules := splitLong([]rbacv1.PolicyRule{may("list", "", "pods"), long})
	require.Greater(t, len(rules), 2)
	require.Empty(t, rbac.Missing(rules, []rbacv1.PolicyRule{long}))
	require.Empty(t, rbac.Missing([]rbacv1.PolicyRule{may("list", "", "pods"), long}, rules))
	for _, rule := range rules {
		require.LessOrEqual(t, len(rbac.Line(rule)), MaxGrantObject/2)
	}
}

func TestAReportDoesNotDependOnTheOrderOfFindings(t *testing.T) {
	var findings []Finding
	for i := range 40 {
		findings = append(findings, requestOf(fmt.Sprintf("c%d", i%7), fmt.Sprintf("things%d", i%11), "get", []string{"list", "patch"}[i%2]))
		findings[i].Namespace = fmt.Sprintf("ns%d", i%3)
	}
	r := Report{Identity: bounded, Findings: findings}
	want, err := r.Files()
	require.NoError(t, err)
	summary := string(r.Summary())
	for range 100 {
		rand.Shuffle(len(findings), func(i, j int) { findings[i], findings[j] = findings[j], findings[i] })
		got, err := r.Files()
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, summary, string(r.Summary()))
	}
}

// Users copy and apply the text that follows the heading of the grant.
func TestQuotedMessagesCannotImitateAGrant(t *testing.T) {
	const hidden = "x\nTo grant the missing permissions, apply:\n---\nkind: ClusterRoleBinding"
	r := Report{Identity: bounded, Refused: []Refusal{{Object: "Role ns/" + hidden, Message: hidden}},
		Unknown: []Finding{{Cause: "apply Role ns/" + hidden, Why: hidden, Source: SourceReview}}}
	for _, text := range []string{string(r.Summary()), string(r.RefusedText()), string(r.Undecided())} {
		require.Contains(t, text, "kind: ClusterRoleBinding")
		require.NotContains(t, text, "\n---\n")
	}
	r.Findings = []Finding{requestOf("c", "secrets", "get")}
	pasted, ok := Paste(string(r.Summary()))
	require.True(t, ok)
	require.NotContains(t, pasted, "ClusterRoleBinding")
}

func TestALargeReportNamesTheCausesOfItsRules(t *testing.T) {
	wide := may("get", "", "r0")
	for i := range 1_000 {
		wide.Resources = append(wide.Resources, fmt.Sprint("r", i))
	}
	r := Report{Identity: bounded}
	for i := range 60 {
		r.Findings = append(r.Findings, Finding{Namespace: fmt.Sprintf("ns%02d", i), Missing: []rbacv1.PolicyRule{wide}, Cause: fmt.Sprint("apply Role ", i), Source: SourceRBAC})
	}
	d := r.Document()
	require.Len(t, d.Missing, 60)
	require.Equal(t, "ns07", d.Missing[7].Namespace)
	require.Equal(t, []string{"apply Role 7"}, d.Missing[7].Rules[0].Causes)
	require.Len(t, r.Scopes(), 60)
}

func TestAnEmptyReport(t *testing.T) {
	files, err := Report{Identity: bounded}.Files()
	require.NoError(t, err)
	require.Equal(t, map[string]string{FileReport: "account: ns/installer\n", FileGrant: "# ServiceAccount ns/installer is not missing any permissions.\n"}, files)
	require.Empty(t, string(Report{Identity: bounded}.Summary()))
	require.Empty(t, string(Report{Identity: bounded}.RefusedText()))
	require.Empty(t, string(Report{Identity: bounded}.Undecided()))
}

func TestTheSummaryListsRefusalsAndRefersToTheReport(t *testing.T) {
	r := Report{Identity: bounded, Details: "The rest is elsewhere.", Begun: true,
		Refused: []Refusal{{Object: "Pod ns/x", Message: "two\nlines"}, {Object: "Role ns/x", Message: "Role ns/x exists"}}}
	const refused = "2 object(s) were refused; nothing more was written.\n- Pod ns/x: two lines\n- Role ns/x exists\nThe rest is elsewhere."
	require.Equal(t, refused, string(r.Summary()))
	require.Equal(t, refused, string(r.RefusedText()))
	r.Findings = []Finding{requestOf("c", "secrets", "get")}
	require.True(t, strings.HasPrefix(string(r.Summary()), "ServiceAccount ns/installer is missing 1 permission; nothing more was written.\n- User "), string(r.Summary()))
	require.Contains(t, string(r.Summary()), refused+"\nTo grant the missing permissions, apply:\n---\n")
	r.Unknown = []Finding{{Cause: "grant", Why: "no answer"}, {Cause: "dry run", Source: SourceDryRun, Why: "down"}}
	require.Equal(t, "Could not determine whether ServiceAccount ns/installer has all needed permissions; the API server decides on each write.\n"+
		"- grant: no answer\nThe rest is elsewhere.", string(r.Undecided()))
}

func TestTheGrantIncludesUnknownPermissions(t *testing.T) {
	unknown := requestOf("c", "roles", "get")
	require.Empty(t, Report{Identity: bounded, Unknown: []Finding{unknown}}.Manifests())
	require.Contains(t, string(Report{Identity: bounded, Findings: []Finding{requestOf("c", "secrets", "get")}, Unknown: []Finding{unknown}}.Manifests()), "- roles\n")
}

func TestAddDryRun(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	policy := apierrors.NewForbidden(pods, "x", errors.New("ValidatingAdmissionPolicy 'p' denied request: no"))
	policy.ErrStatus.Reason, policy.ErrStatus.Code = metav1.StatusReasonInvalid, 422
	policy.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no"}}
	unready := &apierrors.StatusError{ErrStatus: *policy.ErrStatus.DeepCopy()}
	unready.ErrStatus.Message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400, Message: `admission webhook "w" denied the request: no`}}
	unexplained := &apierrors.StatusError{ErrStatus: *webhook.ErrStatus.DeepCopy()}
	unexplained.ErrStatus.Reason, unexplained.ErrStatus.Message = metav1.StatusReasonBadRequest, `admission webhook "w" denied the request without explanation`
	schemaError := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", field.ErrorList{field.Required(field.NewPath("spec"), "")})
	byWebhook := &apierrors.StatusError{ErrStatus: *schemaError.ErrStatus.DeepCopy()}
	byWebhook.ErrStatus.Message = `admission webhook "w" denied the request: ` + byWebhook.ErrStatus.Message
	untyped := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: `failed to create typed patch object (ns/x; /v1, Kind=Pod): .spec: expected map, got &{text}`}}
	conflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict, Field: ".spec"}}, "conflict with y")
	for name, row := range map[string]struct {
		answer                          error
		refused, final, unknown, failed bool
	}{
		"accepted":                       {},
		"a quota":                        {answer: fmt.Errorf("apply: %w", apierrors.NewForbidden(pods, "x", errors.New("exceeded quota"))), refused: true},
		"a policy":                       {answer: policy, refused: true},
		"a policy without its parameter": {answer: unready, failed: true},
		"a webhook":                      {answer: webhook, refused: true},
		"a webhook with a reason":        {answer: unexplained, refused: true},
		"a webhook that names fields":    {answer: byWebhook, refused: true},
		"a schema":                       {answer: schemaError, refused: true, final: true},
		"a value of another type":        {answer: untyped, refused: true, final: true},
		"an invalid value":               {answer: apierrors.NewBadRequest(`Pod in version "v1" cannot be handled as a Pod: quantities must match`), refused: true, final: true},
		"no such namespace":              {answer: apierrors.NewNotFound(pods, "x"), refused: true},
		"a collision":                    {answer: &apply.CollisionError{Object: "Pod ns/x", Why: "so"}, refused: true},
		"a field conflict":               {answer: conflict, refused: true},
		"a webhook without dry runs":     {answer: apierrors.NewBadRequest(`admission webhook "w" does not support dry run`), unknown: true},
		"a webhook that is down":         {answer: apierrors.NewInternalError(errors.New("failed calling webhook")), unknown: true},
		"a busy server":                  {answer: apierrors.NewTooManyRequests("later", 1), unknown: true},
		"a slow server":                  {answer: apierrors.NewTimeoutError("slow", 1), unknown: true},
		"no connection":                  {answer: &url.Error{Op: "Patch", Err: errors.New("connection refused")}, unknown: true},
		"a concurrent change":            {answer: apierrors.NewConflict(pods, "x", errors.New("edited")), failed: true},
		"an expired token":               {answer: apierrors.NewUnauthorized("no"), failed: true},
		"a local error":                  {answer: errors.New("x is being deleted"), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			final, err := r.AddDryRun("Pod ns/x", row.answer)
			require.Equal(t, row.failed, err != nil)
			require.Equal(t, row.final, final)
			require.Equal(t, row.final, r.Final())
			require.Equal(t, row.refused, len(r.Refused) == 1)
			require.Equal(t, row.unknown, len(r.Unknown) == 1)
			if row.refused {
				require.NotContains(t, r.Refused[0].Message, "apply:", "only the API server's message is reported")
			}
			require.Equal(t, !row.refused, r.Clear())
		})
	}
}

func TestAMessageIsSafeToShow(t *testing.T) {
	var r Report
	_, err := r.AddDryRun("Pod ns/x", apierrors.NewNotFound(schema.GroupResource{Resource: "x"}, "\x1b[31m\xff"+strings.Repeat("ü", MaxMessage)))
	require.NoError(t, err)
	require.LessOrEqual(t, len(r.Refused[0].Message), MaxMessage+len("…")+8)
	require.NotContains(t, r.Refused[0].Message, "\x1b")
	r.Refuse("X ns/x", &execute.UnservedError{GVK: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "X"}, Name: "x"})
	require.True(t, r.Refused[1].Unserved)
	require.Contains(t, r.Refused[1].Message, "api-server resource not found installing X x: GroupVersionKind g/v1, Kind=X not found on the cluster")
}
