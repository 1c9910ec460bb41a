package clusterextension

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

var codeSpan = regexp.MustCompile("`([^`]+)`")

// codes returns the texts in a table cell that are marked as code.
func codes(cell string) (out []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// tableOf returns the rows of the first table after a heading of docs/tasks/from-olm-v1.md.
func tableOf(t *testing.T, heading string) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/tasks/from-olm-v1.md")
	require.NoError(t, err)
	_, text, ok := strings.Cut(string(page), "\n"+heading+"\n")
	require.True(t, ok, heading)
	_, text, ok = strings.Cut(text, "| --- |")
	require.True(t, ok, heading)
	for line := range strings.SplitSeq(text, "\n") {
		if cells, isRow := strings.CutPrefix(line, "| "); isRow && !strings.Contains(line, "---") {
			var row []string
			for cell := range strings.SplitSeq(strings.TrimSuffix(cells, "|"), " |") {
				row = append(row, strings.TrimSpace(cell))
			}
			rows = append(rows, row)
		} else if line == "" {
			break
		}
	}
	return rows
}

// The page that compares OLM v1 with Remit lists every condition and every reason of a ClusterExtension, and no others.
func TestThePageForOLMv1ListsAllReasons(t *testing.T) {
	types := func(names ...string) []string { return names }
	want := map[string][]string{}
	add := func(kinds []string, reasons ...string) {
		for _, kind := range kinds {
			want[kind] = reasons
		}
	}
	add(types(olmv1.TypeInstalled), olmv1.ReasonSucceeded, olmv1.ReasonFailed, olmv1.ReasonAbsent)
	add(types(olmv1.TypeProgressing), olmv1.ReasonSucceeded, olmv1.ReasonRollingOut, olmv1.ReasonRetrying, olmv1.ReasonBlocked, olmv1.ReasonInvalidConfiguration,
		olmv1.ReasonProgressDeadlineExceeded)
	add(types(olmv1.TypeDeprecated, olmv1.TypePackageDeprecated, olmv1.TypeChannelDeprecated, olmv1.TypeBundleDeprecated), olmv1.ReasonDeprecated,
		olmv1.ReasonNotDeprecated, olmv1.ReasonDeprecationStatusUnknown, olmv1.ReasonAbsent)
	add(types(olmv1.TypeAvailable), olmv1.ReasonSucceeded, olmv1.ReasonRollingOut, olmv1.ReasonNotObserved, olmv1.ReasonAbsent)
	add(types(olmv1.TypeAuthorized), olmv1.ReasonSucceeded, olmv1.ReasonMissingPermissions, olmv1.ReasonIdentityNotFound, olmv1.ReasonIdentityReserved, olmv1.ReasonNamespaceRecreated, olmv1.ReasonNotEnrolled, olmv1.ReasonEvaluationIncomplete)
	add(types(olmv1.TypeExceedsIdentity), olmv1.ReasonGracePeriod, olmv1.ReasonKept, olmv1.ReasonRemoved, olmv1.ReasonNotRemoved)

	got := map[string][]string{}
	for _, row := range tableOf(t, "## Conditions and reasons") {
		require.Len(t, row, 4, row)
		for _, kind := range codes(row[0]) {
			got[kind] = append(codes(row[1]), codes(row[2])...)
		}
	}
	for kind := range want {
		require.ElementsMatch(t, want[kind], got[kind], kind)
	}
	require.Len(t, got, len(want))

	// The lists above are complete if the code uses no other reason.
	listed, used := map[string]bool{}, map[string]bool{}
	for _, reasons := range got {
		for _, reason := range reasons {
			listed[reason] = true
		}
	}
	for _, name := range reasonsIn(t, ".", "../../extension/assess", "../../extension/resolve") {
		used[name] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(used)))
}

var reasonUsed = regexp.MustCompile(`olmv1\.Reason([A-Z]\w*)`)

// reasonsIn returns the reasons of ClusterExtensions that the code in these directories uses. Each constant is named after its value.
func reasonsIn(t *testing.T, dirs ...string) (out []string) {
	t.Helper()
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range reasonUsed.FindAllSubmatch(text, -1) {
				out = append(out, string(m[1]))
			}
		}
	}
	return out
}

// Each message in the table is what the code reports: either it contains the text of OLM v1, or it contains Remit's text and not
// that of OLM v1.
func TestThePageForOLMv1QuotesTheMessages(t *testing.T) {
	said := situations(t)
	rows := tableOf(t, "## Messages")
	require.Len(t, rows, len(said))
	for _, row := range rows {
		t.Run(row[0], func(t *testing.T) {
			require.Len(t, row, 5, row)
			got, ok := said[row[0]]
			require.True(t, ok, "no code shows this row")
			require.Equal(t, codes(row[1]), []string{got.Reason}, got.Message)
			for _, text := range codes(row[2]) {
				require.Equal(t, strings.HasPrefix(row[4], "same"), contains(got.Message, text), "%q in %q", text, got.Message)
			}
			require.Equal(t, strings.HasPrefix(row[4], "same"), len(codes(row[3])) == 0, row[4])
			for _, text := range codes(row[3]) {
				require.True(t, contains(got.Message, text), "%q in %q", text, got.Message)
			}
		})
	}
}

// reported returns the condition Progressing of an outcome, with its message.
func reported(out outcome) metav1.Condition {
	c := out.progressing
	c.Message = status.Text(out.message)
	return c
}

// contains reports whether a message contains a text, in which "…" stands for any text.
func contains(message, text string) bool {
	parts := strings.Split(text, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)` + strings.Join(parts, ".*")).MatchString(message)
}

// situations returns the condition that the code sets in each situation of the table.
func situations(t *testing.T) map[string]metav1.Condition {
	t.Helper()
	s := situation{t}
	return map[string]metav1.Condition{
		"the ServiceAccount does not exist":                s.accountMissing(),
		"permissions are missing":                          s.unauthorized(func(*preflight.Report) {}),
		"permissions on a CustomResourceDefinition":        s.unauthorized(func(*preflight.Report) {}),
		"not all permissions could be determined":          s.unauthorized(func(r *preflight.Report) { r.Unknown = slices.Clone(r.Findings) }),
		"two catalogs of one priority have the package":    s.resolved(extension("test"), "test-catalog", "extra-catalog"),
		"the version is not a successor":                   s.resolved(extension("test", isInstalled, wants("1.2.0")), "test-catalog"),
		"the catalog's content cannot be read":             s.resolved(extension("test"), "test-catalog/unread"),
		"`watchNamespace` is missing":                      s.configured(`{}`),
		"`watchNamespace` is not the install namespace":    s.configured(`{"watchNamespace": "some-ns"}`),
		"`watchNamespace` is not a valid name":             s.configured(`{"watchNamespace": "invalid-namespace-"}`),
		"`watchNamespace` is not supported":                s.configured(`{"watchNamespace": "ns"}`, operatorsv1alpha1.InstallModeTypeAllNamespaces),
		"the deadline of the rollout has passed":           s.late(),
		"an object belongs to another owner":               s.collides(),
		"a version is installed (`Installed`)":             s.concluded(isInstalled),
		"no version is installed (`Installed`)":            s.concluded(func(*olmv1.ClusterExtension) {}),
		"the installed version is desired (`Progressing`)": s.done(),
		"the objects are available (`Available`)":          s.observed(),
	}
}

type situation struct{ *testing.T }

func isInstalled(ext *olmv1.ClusterExtension) {
	ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "test.v1.0.0", Version: "1.0.0"}}
}

func wants(version string) func(*olmv1.ClusterExtension) {
	return func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.Version = version }
}

// begin returns a run for a bundle that supports the install modes.
func (t situation) begin(ext *olmv1.ClusterExtension, modes ...operatorsv1alpha1.InstallModeType) *run {
	s := givenUnit(t.T, interceptor.Funcs{}, ext).begin(ext)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "test.v1.2.0"}}
	for _, mode := range modes {
		csv.Spec.InstallModes = append(csv.Spec.InstallModes, operatorsv1alpha1.InstallMode{Type: mode, Supported: true})
	}
	s.bundle, s.identity = &bundle.Bundle{CSV: csv}, assess.Identity(ext)
	s.resolved.Bundle = &catalog.Bundle{Name: csv.Name, Version: "1.2.0"}
	return s
}

func (t situation) accountMissing() metav1.Condition {
	s := t.begin(extension("test", func(ext *olmv1.ClusterExtension) { ext.Spec.ServiceAccount.Name = "olm-sa" }))
	s.unusable = notFound(s.identity.Account)
	return reported(s.whyUnauthorized())
}

func definition() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	obj.SetName("things.example.com")
	return obj
}

func (t situation) unauthorized(change func(*preflight.Report)) metav1.Condition {
	s := t.begin(extension("test"))
	needs, err := preflight.NeedsOf([]step.Step{{Object: definition(), Owner: s.owner}}, nil, func(step.Step) bool { return false })
	require.NoError(t, err)
	s.findings = preflight.Examine(s.identity, needs, func(string) rbac.Permissions { return rbac.Permissions{} })
	change(&s.findings)
	return reported(s.whyUnauthorized())
}

// resolved returns the outcome of the resolution with ClusterCatalogs of the same content, or without content.
func (t situation) resolved(ext *olmv1.ClusterExtension, catalogs ...string) metav1.Condition {
	u := givenUnit(t.T, interceptor.Funcs{}, ext)
	for _, name := range catalogs {
		name, unread := strings.CutSuffix(name, "/unread")
		require.NoError(t, u.Client.Create(t.Context(), &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		if !unread {
			u.store.Put(&catalog.Snapshot{Key: types.NamespacedName{Name: name}, Packages: map[string]*catalog.Package{"test": {
				Name: "test",
				Channels: map[string]*catalog.Channel{"beta": {Name: "beta", Entries: map[string]catalog.Entry{
					"test.v1.0.0": {Name: "test.v1.0.0"}, "test.v1.0.1": {Name: "test.v1.0.1", Replaces: "test.v1.0.0"}, "test.v1.2.0": {Name: "test.v1.2.0", Replaces: "test.v1.0.1"},
				}}},
				Bundles: map[string]*catalog.Bundle{
					"test.v1.0.0": {Name: "test.v1.0.0", Package: "test", Version: "1.0.0"}, "test.v1.0.1": {Name: "test.v1.0.1", Package: "test", Version: "1.0.1"},
					"test.v1.2.0": {Name: "test.v1.2.0", Package: "test", Version: "1.2.0"},
				},
			}}})
		}
	}
	out, err := resolveBundle(t.Context(), u.begin(ext))
	require.NoError(t, err)
	return reported(out)
}

func (t situation) configured(config string, modes ...operatorsv1alpha1.InstallModeType) metav1.Condition {
	if len(modes) == 0 {
		modes = []operatorsv1alpha1.InstallModeType{operatorsv1alpha1.InstallModeTypeOwnNamespace}
	}
	s := t.begin(extension("test", func(ext *olmv1.ClusterExtension) {
		ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline, Inline: &apiextensionsv1.JSON{Raw: []byte(config)}}
	}), modes...)
	out, err := renderObjects(t.Context(), s)
	require.NoError(t, err)
	return reported(out)
}

func (t situation) late() metav1.Condition {
	s := t.begin(extension("test", func(ext *olmv1.ClusterExtension) { ext.Spec.ProgressDeadlineMinutes = 10 }))
	s.pass = &pass{begun: s.Clock.Now().Add(-time.Hour)}
	return reported(s.withDeadline(rolling(s.aboutRollout("Deployment ns/op is not available"))))
}

func (t situation) collides() metav1.Condition {
	s := t.begin(extension("test"))
	live := definition()
	live.SetLabels(map[string]string{"olm.operatorframework.io/owner-name": "another"})
	require.NoError(t, s.examine(t.Context(), []execute.State{{Step: step.Step{Object: definition(), Owner: s.owner}, Live: live}}))
	return reported(waiting(s.aboutBundle(s.findings.Refusals().Err())))
}

func (t situation) concluded(change func(*olmv1.ClusterExtension)) metav1.Condition {
	s := t.begin(extension("test", change))
	s.setInstalled(rolling(""))
	return *meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeInstalled)
}

func (t situation) done() metav1.Condition {
	s := t.begin(extension("test"))
	s.setProgressing(succeeded(""))
	return *meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeProgressing)
}

// observed returns the condition Available of an installed version whose objects are all available.
func (t situation) observed() metav1.Condition {
	s := t.begin(extension("test", isInstalled))
	s.memory.Change(s.key(), func(is *remembered) { is.probedFor = "hash" })
	s.observeInstalled(t.Context())
	s.setAvailable()
	return *meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeAvailable)
}
