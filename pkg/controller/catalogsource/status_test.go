package catalogsource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/remit-olm/remit/pkg/catalog"
)

var (
	earlier = metav1.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	now     = metav1.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)
)

func TestReportsInvalidSpecsInTheWordingOfOLM(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec operatorsv1alpha1.CatalogSourceSpec
		want string
	}{
		{"configmap without name", operatorsv1alpha1.CatalogSourceSpec{SourceType: "configmap"},
			"configmap name unset: must be set for sourcetype: configmap"},
		{"internal without name", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal"},
			"configmap name unset: must be set for sourcetype: internal"},
		{"grpc without image and address", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc"},
			"image and address unset: at least one must be set for sourcetype: grpc"},
		{"another type", operatorsv1alpha1.CatalogSourceSpec{SourceType: "nope"}, "unknown sourcetype: nope"},
		{"grpc with an image", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "i"}, ""},
		{"grpc with an address", operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Address: "a:1"}, ""},
		{"internal with a name", operatorsv1alpha1.CatalogSourceSpec{SourceType: "internal", ConfigMap: "c"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := invalid(&tt.spec)
			if tt.want == "" {
				require.Nil(t, got)
				return
			}
			require.Equal(t, &problem{reason: "SpecInvalidError", message: tt.want}, got)
		})
	}
}

func TestDesired(t *testing.T) {
	ready := observation{state: "READY", address: "in-process"}
	readyStatus := operatorsv1alpha1.CatalogSourceStatus{
		RegistryServiceStatus: &operatorsv1alpha1.RegistryServiceStatus{Protocol: "grpc", CreatedAt: earlier},
		GRPCConnectionState: &operatorsv1alpha1.GRPCConnectionState{
			Address: "in-process", LastObservedState: "READY", LastConnectTime: earlier},
	}
	with := func(change func(*operatorsv1alpha1.CatalogSourceStatus)) operatorsv1alpha1.CatalogSourceStatus {
		s := readyStatus.DeepCopy()
		change(s)
		return *s
	}
	for _, tt := range []struct {
		name string
		old  operatorsv1alpha1.CatalogSourceStatus
		seen observation
		want operatorsv1alpha1.CatalogSourceStatus
		// later edits want to obtain the status expected an hour later.
		later func(*operatorsv1alpha1.CatalogSourceStatus)
	}{
		{name: "a new catalog becomes ready", seen: ready,
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.RegistryServiceStatus.CreatedAt, s.GRPCConnectionState.LastConnectTime = now, now
			})},
		{name: "a ready catalog is unchanged", old: readyStatus, seen: ready, want: readyStatus},
		{name: "a catalog that becomes malformed keeps its lastConnect", old: readyStatus,
			seen: observation{state: "TRANSIENT_FAILURE", address: "in-process", problem: &problem{"RegistryServerError", "bad"}},
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.Reason, s.Message = "RegistryServerError", "bad"
				s.GRPCConnectionState.LastObservedState = "TRANSIENT_FAILURE"
			})},
		{name: "a catalog that recovers connects again, and its problem is cleared", seen: ready,
			old: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.Reason, s.Message = "RegistryServerError", "bad"
				s.GRPCConnectionState.LastObservedState = "TRANSIENT_FAILURE"
			}),
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) { s.GRPCConnectionState.LastConnectTime = now })},
		{name: "a catalog that package-server has refused is ready", old: readyStatus,
			seen: observation{state: "READY", address: "in-process", refusal: "no\nroom"},
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.Conditions = []metav1.Condition{{Type: "PackagesNotListed", Status: metav1.ConditionTrue, Reason: "RefusedByPackageServer", LastTransitionTime: now,
					Message: "PackageManifests show no packages of this catalog, or those of an earlier version: no room"}}
			})},
		{name: "a catalog that package-server lists again has no such condition", seen: ready,
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) { s.Conditions = []metav1.Condition{} }),
			old: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.Conditions = []metav1.Condition{{Type: "PackagesNotListed", Status: metav1.ConditionTrue, Reason: "RefusedByPackageServer"}}
			})},
		{name: "another address connects again", old: readyStatus, seen: observation{state: "READY", address: "a.b.svc:1"},
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.GRPCConnectionState.Address, s.GRPCConnectionState.LastConnectTime = "a.b.svc:1", now
			})},
		{name: "an invalid spec has neither registry nor connection", old: readyStatus,
			seen: observation{problem: &problem{"SpecInvalidError", "unknown sourcetype: x"}},
			want: operatorsv1alpha1.CatalogSourceStatus{Reason: "SpecInvalidError", Message: "unknown sourcetype: x"}},
		{name: "a ConfigMap reference has the time at which its version was first seen",
			old: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.ConfigMapResource = &operatorsv1alpha1.ConfigMapResourceReference{Name: "c", UID: "u", ResourceVersion: "1", LastUpdateTime: earlier}
			}),
			seen: observation{state: "READY", address: "in-process",
				configMap: &operatorsv1alpha1.ConfigMapResourceReference{Name: "c", UID: "u", ResourceVersion: "2"}},
			want: with(func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.ConfigMapResource = &operatorsv1alpha1.ConfigMapResourceReference{Name: "c", UID: "u", ResourceVersion: "2", LastUpdateTime: now}
			}), later: func(s *operatorsv1alpha1.CatalogSourceStatus) {
				s.GRPCConnectionState.LastConnectTime = metav1.NewTime(now.Add(time.Hour))
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cs := &operatorsv1alpha1.CatalogSource{Status: tt.old}
			got := desired(cs, tt.seen, now)
			require.Equal(t, &tt.want, got)
			cs.Status = *got
			later := got.DeepCopy()
			if tt.later != nil {
				tt.later(later)
			}
			require.Equal(t, later, desired(cs, tt.seen, metav1.NewTime(now.Add(time.Hour))), "a second reconcile changes nothing else")
			cs.Status = *later
			require.Equal(t, later, desired(cs, tt.seen, metav1.NewTime(now.Add(2*time.Hour))), "a third reconcile changes nothing")
		})
	}
}

func TestReportsAnInvalidPollIntervalOnlyForImages(t *testing.T) {
	poll := &operatorsv1alpha1.RegistryPoll{RawInterval: "x", ParsingError: "error parsing"}
	cs := &operatorsv1alpha1.CatalogSource{Spec: operatorsv1alpha1.CatalogSourceSpec{
		SourceType: "grpc", Image: "i", UpdateStrategy: &operatorsv1alpha1.UpdateStrategy{RegistryPoll: poll}}}
	seen := observation{state: "READY", address: "in-process"}
	require.Equal(t, operatorsv1alpha1.CatalogSourceIntervalInvalidError, desired(cs, seen, now).Reason)
	cs.Spec.Image = ""
	require.Empty(t, desired(cs, seen, now).Reason)
}

func TestMessagesAreLimitedToOneLine(t *testing.T) {
	got := oneLine("a\nb\tc\x1b[31m\xff" + strings.Repeat("é", maxMessage))
	require.True(t, utf8.ValidString(got))
	require.LessOrEqual(t, len(got), maxMessage)
	require.True(t, strings.HasPrefix(got, "a b c\uFFFD[31m\uFFFD"), got[:20])
	require.True(t, strings.HasSuffix(got, "(truncated)"))
}

// refusals implements Refusals.
type refusals map[types.NamespacedName]string

func (r refusals) Refusal(catalog types.NamespacedName) string     { return r[catalog] }
func (r refusals) WatchRefusals(notify func(types.NamespacedName)) {}

// A catalog that is not listed looks READY, so its author would not know why it is missing.
func TestReportsThatPackageServerHasRefusedTheCatalog(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(goodCatalog), 0o600))
	cs := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "remit", Name: "a"}, Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: "grpc", Image: "i"}}
	w := given(t, map[string]string{"i": dir}, cs)
	key := types.NamespacedName{Namespace: "remit", Name: "a"}
	conditions := func(refusal string) []metav1.Condition {
		t.Helper()
		w.Refusals = refusals{key: refusal}
		_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		require.NoError(t, w.Client.Get(t.Context(), key, cs))
		require.Equal(t, "READY", cs.Status.GRPCConnectionState.LastObservedState)
		return cs.Status.Conditions
	}
	got := conditions("no room for the catalog")
	require.Len(t, got, 1)
	require.Equal(t, "PackagesNotListed", got[0].Type)
	require.Contains(t, got[0].Message, "no room for the catalog")
	require.Empty(t, conditions(""))
}

func TestAConditionNamesFewExcludedPackages(t *testing.T) {
	snap := &catalog.Snapshot{MoreExcluded: 7}
	for i := range catalog.MaxExcluded {
		snap.Excluded = append(snap.Excluded, fmt.Sprint("p", i))
	}
	require.Equal(t, maxShownExcluded+3, len(strings.Fields(excludedNames(snap))), "the names, and a number")
	require.Contains(t, excludedNames(snap), "and 987 more")
	require.Equal(t, `["a"]`, excludedNames(&catalog.Snapshot{Excluded: []string{"a"}}))
}
