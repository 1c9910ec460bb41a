package preflight

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/rbac"
)

// authorizers answers reviews: it allows the requests in allowed and returns an error for those in broken.
type authorizers struct {
	allowed, broken map[string]bool

	mu      sync.Mutex
	asked   []string
	atOnce  int
	highest int
}

func (a *authorizers) review(_ context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error) {
	a.mu.Lock()
	a.atOnce++
	a.highest = max(a.highest, a.atOnce)
	key := namespace + " " + atom.Verbs[0] + " " + atom.Resources[0]
	a.asked = append(a.asked, subject.User+" "+key)
	defer a.mu.Unlock()
	a.atOnce--
	if a.broken[key] {
		return false, errors.New("the authorizer does not answer")
	}
	return a.allowed[key], nil
}

func yes(keys ...string) map[string]bool {
	out := map[string]bool{}
	for _, k := range keys {
		out[k] = true
	}
	return out
}

var bounded = scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "ns", Name: "installer"})

func requestOf(cause, resource string, verbs ...string) Finding {
	return Finding{Namespace: "ns", Cause: cause, Source: SourceRBAC, Missing: []rbacv1.PolicyRule{
		{Verbs: verbs, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: []string{"x"}}}}
}

func grantOf(resource string) Finding {
	return Finding{Namespace: "ns", Cause: "grant", Granted: true, Source: SourceRBAC,
		Missing: []rbacv1.PolicyRule{may("get", "", resource)}, Alternatives: []rbacv1.PolicyRule{may("escalate", rbacv1.GroupName, "roles", "x")}}
}

// shown formats findings for comparison, one line per missing rule.
func shown(findings []Finding) []string {
	var out []string
	for _, f := range findings {
		for _, rule := range f.Missing {
			out = append(out, fmt.Sprintf("%s %v %v %s", f.Source, rule.Verbs, rule.Resources, f.Why))
		}
	}
	return out
}

func TestReviewsDecideWhatRBACDoesNotGrant(t *testing.T) {
	const failed = "the authorizer does not answer"
	for _, row := range []struct {
		name                       string
		report                     Report
		allowed, broken            map[string]bool
		missing, byOthers, unknown []string
	}{
		{name: "denied", report: Report{Findings: []Finding{requestOf("c", "secrets", "get", "patch")}},
			missing: []string{"review [get patch] [secrets] "}},
		{name: "allowed by another authorizer", report: Report{Findings: []Finding{requestOf("c", "secrets", "get")}},
			allowed: yes("ns get secrets"), byOthers: []string{"review [get] [secrets] "}},
		{name: "allowed in part", report: Report{Findings: []Finding{requestOf("c", "secrets", "get", "patch")}},
			allowed: yes("ns get secrets"), missing: []string{"review [patch] [secrets] "}, byOthers: []string{"review [get] [secrets] "}},
		{name: "not decided", report: Report{Findings: []Finding{requestOf("c", "secrets", "get", "patch")}},
			broken: yes("ns get secrets"), missing: []string{"review [patch] [secrets] "}, unknown: []string{"review [get] [secrets] " + failed}},
		{name: "63 only the alternatives of a grant are reviewed", report: Report{Findings: []Finding{grantOf("secrets")}},
			allowed: yes("ns get secrets"), missing: []string{"rbac [get] [secrets] "}},
		{name: "escalate by another authorizer", report: Report{Findings: []Finding{grantOf("secrets")}},
			allowed: yes("ns escalate roles"), byOthers: []string{"review [escalate] [roles] "}},
		{name: "escalate that cannot be decided", report: Report{Findings: []Finding{grantOf("secrets")}},
			broken: yes("ns escalate roles"), unknown: []string{"rbac [get] [secrets] " + failed}},
		{name: "RBAC that could not be read", report: Report{Unknown: []Finding{unread(requestOf("c", "secrets", "get", "patch")), unread(grantOf("pods"))}},
			allowed: yes("ns get secrets"), missing: []string{"review [patch] [secrets] ", "review [get] [pods] "}, byOthers: []string{"review [get] [secrets] "}},
		{name: "a role that could not be read", report: Report{Unknown: []Finding{{Namespace: "ns", Granted: true, Why: "no", Cause: "c",
			Alternatives: []rbacv1.PolicyRule{may("bind", rbacv1.GroupName, "roles", "x")}}}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := &authorizers{allowed: row.allowed, broken: row.broken}
			row.report.Identity = bounded
			got := (&Confirmer{Ask: a.review}).Confirm(t.Context(), "plan", row.report)
			require.Equal(t, row.missing, shown(got.Findings))
			require.Equal(t, row.byOthers, shown(got.Allowed))
			require.Equal(t, row.unknown, shown(got.Unknown))
			require.Len(t, got.Findings, len(row.missing))
			for _, q := range a.asked {
				require.Contains(t, q, "system:serviceaccount:ns:installer ")
			}
		})
	}
}

func unread(f Finding) Finding {
	f.Why = "reading RBAC is not allowed"
	return f
}

func TestAsksTheSameQuestionOnce(t *testing.T) {
	a := &authorizers{allowed: yes("ns get secrets")}
	c := &Confirmer{Ask: a.review}
	report := Report{Identity: bounded, Findings: []Finding{requestOf("one", "secrets", "get", "patch"), requestOf("two", "secrets", "get")}}
	first := c.Confirm(t.Context(), "plan", report)
	require.Len(t, a.asked, 2, "each question is asked once")
	require.Equal(t, first, c.Confirm(t.Context(), "plan", report))
	require.Len(t, a.asked, 2, "a retry with the same questions sends no requests")

	c.Confirm(t.Context(), "another plan", report)
	require.Len(t, a.asked, 4)
	report.Findings = report.Findings[1:]
	c.Confirm(t.Context(), "plan", report)
	require.Len(t, a.asked, 5, "asks again after a change")
	require.True(t, c.Confirm(t.Context(), "plan", Report{Identity: bounded}).Clear())
	c.Confirm(t.Context(), "plan", report)
	require.Len(t, a.asked, 6, "asks again because nothing was missing in between")
	c.Forget("plan")
	c.Confirm(t.Context(), "plan", report)
	require.Len(t, a.asked, 7)
}

// The API server's cache may not have shown yet that a binding was removed.
func TestAsksAgainOnceWhatRBACDoesNotGrant(t *testing.T) {
	a, now := &authorizers{allowed: yes("ns get pods")}, time.Now()
	c := &Confirmer{Ask: a.review, Now: func() time.Time { return now }}
	confirm := func() Report {
		return c.Confirm(t.Context(), "plan a", Report{Identity: bounded, Findings: []Finding{requestOf("x", "pods", "get"), requestOf("y", "secrets", "get")}})
	}
	require.Zero(t, c.Recheck("plan"))
	require.Len(t, confirm().Findings, 1)
	require.Equal(t, Settling, c.Recheck("plan"))
	require.Zero(t, c.Recheck("other"))
	now = now.Add(Settling - 1)
	require.Len(t, confirm().Findings, 1)
	require.Len(t, a.asked, 2)
	a.allowed = nil
	now = now.Add(1)
	require.Len(t, confirm().Findings, 2)
	require.Len(t, a.asked, 3, "what was denied is not asked again")
	require.Zero(t, c.Recheck("plan"))
	now = now.Add(time.Hour)
	require.Len(t, confirm().Findings, 2)
	require.Len(t, a.asked, 3)
}

func TestAsksUndecidedQuestionsAgain(t *testing.T) {
	a := &authorizers{broken: yes("ns get secrets")}
	c := &Confirmer{Ask: a.review}
	report := Report{Identity: bounded, Findings: []Finding{requestOf("c", "secrets", "get", "patch")}}
	require.Len(t, c.Confirm(t.Context(), "plan", report).Unknown, 1)
	a.broken = nil
	require.Empty(t, c.Confirm(t.Context(), "plan", report).Unknown)
	require.Len(t, a.asked, 3, "decided questions are not asked again")
}

func TestReviewsAreLimited(t *testing.T) {
	var many []Finding
	for i := range MaxReviews + 10 {
		many = append(many, requestOf("c", fmt.Sprintf("things%04d", i), "get"))
	}
	a := &authorizers{}
	got := (&Confirmer{Ask: a.review}).Confirm(t.Context(), "plan", Report{Identity: bounded, Findings: many})
	require.Len(t, a.asked, MaxReviews)
	require.LessOrEqual(t, a.highest, ReviewsAtOnce)
	require.Len(t, got.Findings, len(many), "the other questions keep the result from RBAC")
	require.Equal(t, SourceRBAC, got.Findings[len(many)-1].Source)

	a = &authorizers{allowed: map[string]bool{}}
	for i := range MaxReviews {
		a.allowed[fmt.Sprintf("ns get things%04d", i)] = true
	}
	got = (&Confirmer{Ask: a.review}).Confirm(t.Context(), "plan", Report{Identity: bounded, Findings: many})
	require.Empty(t, got.Findings, "if another authorizer decides, the result from RBAC is ignored")
	require.Len(t, got.Unknown, 10)
}

func TestAReviewNamesSubresourceAndURL(t *testing.T) {
	for name, row := range map[string]struct {
		namespace string
		atom      rbacv1.PolicyRule
		want      string
	}{
		"a named subresource": {"ns", may("update", "apps", "deployments/scale", "x"), "ns update apps deployments scale x"},
		"everything":          {"", may("*", "*", "*"), " * * *  "},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(rbac.Subject{User: "u"}, row.namespace, row.atom)
			r := spec.ResourceAttributes
			require.Equal(t, row.want, r.Namespace+" "+r.Verb+" "+r.Group+" "+r.Resource+" "+r.Subresource+" "+r.Name)
			require.Equal(t, "*", r.Version)
		})
	}
	spec := specOf(rbac.Subject{}, "", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}})
	require.Nil(t, spec.ResourceAttributes)
	require.Equal(t, "/metrics", spec.NonResourceAttributes.Path)
}

// The names in a bundle's rules can be long, and a group can have hundreds of target namespaces.
func TestAnswersTakeLittleMemory(t *testing.T) {
	a := &authorizers{}
	c := &Confirmer{Ask: a.review}
	var findings []Finding
	for i := range 1000 {
		findings = append(findings, Finding{Namespace: fmt.Sprint("ns", i), Missing: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{strings.Repeat("r", 100_000)}, Verbs: []string{"get", "list"}},
		}})
	}
	got := c.Confirm(t.Context(), "plan", Report{Identity: bounded, Findings: findings})
	require.Len(t, got.Findings, 1000)
	known := c.known.Get("plan").answers
	require.Len(t, known, MaxReviews)
	for key := range known {
		require.Len(t, key, sha256.Size)
	}
	require.True(t, got.Unasked)
	questions, all, _ := questionsOf(Report{Identity: bounded, Findings: findings})
	require.Len(t, questions, MaxReviews)
	findings[999].Namespace = "other"
	_, other, _ := questionsOf(Report{Identity: bounded, Findings: findings})
	require.NotEqual(t, all, other, "questions that are not asked count, too")
}
