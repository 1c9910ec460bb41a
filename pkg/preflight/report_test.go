package preflight_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	rbacv1listers "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/test/env/corpus"
	sample "github.com/remit-olm/remit/test/operators/sample/bundle"
)

var update = flag.Bool("update", false, "write the golden files")

func account() scoped.Identity {
	return scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: "team-a", Name: "installer"})
}

func scope(targets ...string) build.Scope {
	return build.Scope{Namespace: "team-a", Package: "sample-operator", Targets: targets}
}

// read parses the bundle in a directory of manifests.
func read(t testing.TB, fsys fs.FS) *bundle.Bundle {
	t.Helper()
	files, err := fs.Glob(fsys, "*")
	require.NoError(t, err)
	var manifests [][]byte
	for _, f := range files {
		raw, err := fs.ReadFile(fsys, f)
		require.NoError(t, err)
		manifests = append(manifests, raw)
	}
	b, err := bundle.ParseContent(t.Context(), &catalog.Content{Manifests: manifests})
	require.NoError(t, err)
	return b
}

func sampleBundle(t testing.TB) *bundle.Bundle {
	t.Helper()
	fsys, err := fs.Sub(sample.FS(), "manifests")
	require.NoError(t, err)
	return read(t, fsys)
}

func required(t *testing.T, b *bundle.Bundle, s build.Scope) preflight.Report {
	t.Helper()
	report, err := preflight.Required(account(), b, s)
	require.NoError(t, err)
	return report
}

// granted returns the listers of a cluster with only the RBAC objects in the manifests.
func granted(t *testing.T, manifests []byte) rbac.Listers {
	t.Helper()
	indexers := map[string]cache.Indexer{}
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		indexers[kind] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		var raw runtime.RawExtension
		if decoder.Decode(&raw) != nil {
			break
		}
		obj, gvk, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		require.NoError(t, err)
		require.NoError(t, indexers[gvk.Kind].Add(obj))
	}
	return rbac.Listers{
		Roles:               rbacv1listers.NewRoleLister(indexers["Role"]),
		RoleBindings:        rbacv1listers.NewRoleBindingLister(indexers["RoleBinding"]),
		ClusterRoles:        rbacv1listers.NewClusterRoleLister(indexers["ClusterRole"]),
		ClusterRoleBindings: rbacv1listers.NewClusterRoleBindingLister(indexers["ClusterRoleBinding"]),
	}
}

// evaluate reports the permissions that the account needs for a bundle and does not have according to the listers.
func evaluate(t *testing.T, b *bundle.Bundle, s build.Scope, l rbac.Listers) preflight.Report {
	t.Helper()
	steps, err := build.NewStepResourceFromBundle(b, s, build.Unchecked{})
	require.NoError(t, err)
	needs, err := preflight.NeedsOf(steps.Steps, l.RulesOf, func(step.Step) bool { return false })
	require.NoError(t, err)
	return preflight.Examine(account(), needs, func(namespace string) rbac.Permissions {
		return l.Permissions(rbac.SubjectOf(account()), namespace)
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), got)
}

func TestTheSummaryOfTheSampleBundle(t *testing.T) {
	golden(t, "sample-summary.txt", string(required(t, sampleBundle(t), scope("team-a")).Summary()))
	golden(t, "sample-summary-two-targets.txt", string(required(t, sampleBundle(t), scope("team-b", "team-c")).Summary()))
}

func TestApplyingTheGrantMakesTheReportEmpty(t *testing.T) {
	for _, s := range []build.Scope{scope("team-a"), scope("team-b", "team-c"), scope(rbac.ClusterScope)} {
		t.Run(fmt.Sprint(s.Targets), func(t *testing.T) {
			b := sampleBundle(t)
			first := required(t, b, s)
			require.False(t, first.Empty())
			require.Empty(t, evaluate(t, b, s, granted(t, first.Manifests())).Findings)

			pasted, ok := preflight.Paste(string(first.Summary()))
			require.True(t, ok)
			require.Equal(t, string(first.Manifests()), pasted)
			for _, missing := range strings.SplitAfter(pasted, "---\n")[1:] {
				rest := strings.Replace(pasted, missing, "", 1)
				require.False(t, evaluate(t, b, s, granted(t, []byte(rest))).Empty(), "every object of the grant is needed")
			}
		})
	}
}

func TestApplyingTheGrantOfARealBundleMakesTheReportEmpty(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(corpus.Dir(t, "bundles"), "*", "*", "manifests"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		b := read(t, os.DirFS(dir))
		report := required(t, b, scope("team-a"))
		require.NotEmpty(t, report.Scopes(), dir)
		require.Empty(t, evaluate(t, b, scope("team-a"), granted(t, report.Manifests())).Findings, dir)
		require.LessOrEqual(t, len(string(report.Summary())), preflight.MaxSummary, dir)
	}
}

func TestALongSummaryOmitsWholeLinesAndCountsThem(t *testing.T) {
	report := preflight.Report{Identity: account()}
	const rules = 1000
	for i := range rules {
		report.Findings = append(report.Findings, preflight.Finding{Namespace: fmt.Sprintf("n%04d", i), Missing: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		}})
	}
	summary := string(report.Summary())
	require.LessOrEqual(t, len(summary), preflight.MaxSummary)
	require.Equal(t, string(report.Refusals()), summary, "a grant that does not fit is omitted")
	_, ok := preflight.Paste(summary)
	require.False(t, ok)

	lines := strings.Split(summary, "\n")
	require.Equal(t, "ServiceAccount team-a/installer is missing 1000 permissions; nothing was written.", lines[0])
	shown := lines[1 : len(lines)-1]
	for i, line := range shown {
		require.Equal(t, fmt.Sprintf(`- User "system:serviceaccount:team-a:installer" cannot get resource "pods" in API group "" in the namespace "n%04d"`, i), line)
	}
	require.Equal(t, fmt.Sprintf("and %d more", rules-len(shown)), lines[len(lines)-1])
	require.Greater(t, len(shown), 200)
}

func TestDescribesEachMissingRuleLikeTheAPIServer(t *testing.T) {
	report := preflight.Report{Identity: account(), Findings: []preflight.Finding{
		{Namespace: "ns", Missing: []rbacv1.PolicyRule{{Verbs: []string{"get", "patch", "create"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}, ResourceNames: []string{"op"}}}},
		{Namespace: "ns", Missing: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
		{Missing: []rbacv1.PolicyRule{{Verbs: []string{"get", "head", "post"}, NonResourceURLs: []string{"/metrics"}}}},
	}}
	const user = `- User "system:serviceaccount:team-a:installer" cannot `
	require.Equal(t, strings.Join([]string{
		"ServiceAccount team-a/installer is missing 3 permissions; nothing was written.",
		user + `get path "/metrics", nor head or post it`,
		user + `get resource "pods" in API group "" in the namespace "ns", nor list it`,
		user + `create resource "deployments" in API group "apps" in the namespace "ns" (named "op"), nor get or patch it`,
	}, "\n"), string(report.Refusals()))
}

// Tools search for "cannot create resource", even if the missing permission is part of a larger one.
func TestNamesTheVerbCreateOfAllVerbs(t *testing.T) {
	everything := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	create := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"apps"}, Resources: []string{"deployments"}}
	refusals := func(missing ...rbacv1.PolicyRule) string {
		return string(preflight.Report{Identity: account(), Findings: []preflight.Finding{{Namespace: "ns", Missing: missing}}}.Refusals())
	}
	require.Contains(t, refusals(everything, create), `cannot create resource "*" in API group "*" in the namespace "ns", nor * it`)
	require.Contains(t, refusals(everything), `cannot * resource "*"`, "the account may have the permission to create")
}

// OLM reports the first refused write of a plan, which is that of the ClusterServiceVersion.
func TestNamesTheClusterServiceVersionThatWildcardsInclude(t *testing.T) {
	everything := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	create := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"operators.coreos.com"}, Resources: []string{"clusterserviceversions"}, ResourceNames: []string{"a.v1"}}
	refusals := func(wide string, missing ...rbacv1.PolicyRule) string {
		findings := []preflight.Finding{{Namespace: wide, Missing: []rbacv1.PolicyRule{everything}}, {Namespace: "ns", Missing: missing}}
		return string(preflight.Report{Identity: account(), Findings: findings}.Refusals())
	}
	const refusal = `; this includes: clusterserviceversions.operators.coreos.com is forbidden: User "system:serviceaccount:team-a:installer" cannot create resource "clusterserviceversions" in API group "operators.coreos.com" in the namespace "ns"`
	for _, wide := range []string{"ns", ""} {
		require.Equal(t, 1, strings.Count(refusals(wide, create), refusal), wide)
		require.NotContains(t, refusals(wide), "clusterserviceversions", "the account may have the permission")
	}
	require.NotContains(t, refusals("other", create), "this includes")
}

func TestGrantsOfDifferentReportsHaveDifferentNames(t *testing.T) {
	one := preflight.Report{Identity: account(), Findings: []preflight.Finding{{Namespace: "ns", Missing: []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}}
	two := preflight.Report{Identity: account(), Findings: []preflight.Finding{{Namespace: "ns", Missing: []rbacv1.PolicyRule{
		{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}}}
	both := granted(t, append(one.Manifests(), two.Manifests()...))
	effective, err := both.EffectiveRules(rbac.ServiceAccount("team-a", "installer"), "ns")
	require.NoError(t, err)
	require.Len(t, effective, 2)
	other := one
	other.Identity.Account.Namespace = "team-b"
	require.NotContains(t, string(other.Manifests()), grantNameOf(t, one), "an account with the same name in another namespace")
	require.Empty(t, preflight.Report{}.Manifests())
}

func grantNameOf(t *testing.T, r preflight.Report) string {
	t.Helper()
	_, rest, ok := strings.Cut(string(r.Manifests()), "name: ")
	require.True(t, ok)
	name, _, _ := strings.Cut(rest, "\n")
	return name
}
