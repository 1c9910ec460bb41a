package resolver

import (
	"os"
	"path/filepath"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/test/env/corpus"
)

// loadCorpus returns a Snapshot of a catalog of the corpus or, if dir is "bundles", of all bundles of the corpus.
func loadCorpus(t testing.TB, dir string) *catalog.Snapshot {
	t.Helper()
	var snapshot *catalog.Snapshot
	var err error
	if dir == "bundles" {
		cfg, failed := fbc.FromBundles(t.Context(), os.DirFS(corpus.Dir(t, dir)))
		require.NoError(t, failed)
		snapshot, err = fbc.FromConfig(cfg, nil)
	} else {
		snapshot, err = fbc.Load(t.Context(), os.DirFS(corpus.Dir(t, dir)))
	}
	require.NoError(t, err)
	snapshot.Key = types.NamespacedName{Namespace: "ns", Name: filepath.Base(filepath.Dir(dir + "/x"))}
	return snapshot
}

func subjectOf(s *catalog.Snapshot, pkg, channel string) Subject {
	return Subject{Subscription: &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pkg, UID: types.UID(pkg)},
		Spec:       &operatorsv1alpha1.SubscriptionSpec{CatalogSourceNamespace: s.Key.Namespace, CatalogSource: s.Key.Name, Package: pkg, Channel: channel},
	}}
}

// unmet contains, for each package, a requirement that nothing in the corpus meets.
var unmet = map[string]string{
	"awss3-operator-registry":   "group: objectbucket.io, version: v1alpha1, kind: ObjectBucket",
	"eclipse-che":               "package: devworkspace-operator and with version in range: >=0.11.0",
	"lib-bucket-provisioner":    "group: objectbucket.io, version: v1alpha1, kind: ObjectBucketClaim",
	"mercury-operator":          "group: kafka.strimzi.io, version: v1beta2, kind: Kafka",
	"shipwright-operator":       "group: operator.tekton.dev, version: v1alpha1, kind: TektonConfig",
	"special-resource-operator": "group: nfd.openshift.io, version: v1, kind: NodeFeatureDiscovery",
}

func TestResolvesEveryHeadOfTheCorpus(t *testing.T) {
	bundles, catalogs := loadCorpus(t, "bundles"), loadCorpus(t, "catalogs/v4.20")
	in := world(bundles, catalogs)
	for _, s := range []*catalog.Snapshot{bundles, catalogs} {
		heads := 0
		for _, name := range s.PackageNames() {
			for _, channel := range s.Packages[name].ChannelNames() {
				head, err := s.Packages[name].Channels[channel].Head()
				require.NoError(t, err, "%s %s", name, channel)
				got := in.resolve(Namespace{Subjects: []Subject{subjectOf(s, name, channel)}})
				heads++
				if why, ok := unmet[name]; ok {
					require.Contains(t, got.Problems[types.UID(name)].Message, why)
					needy := in
					needy.Serves = func(schema.GroupVersionKind) bool { return true }
					got = needy.resolve(Namespace{Subjects: []Subject{subjectOf(s, name, channel)}})
				}
				if name == "eclipse-che" || name == "mercury-operator" {
					continue // these operators require packages; Serves has no effect on package requirements
				}
				require.Empty(t, got.Problems, "%s %s", name, channel)
				require.Equal(t, head.Name, got.Sets[0][0].Bundle)
			}
		}
		t.Logf("%s: %d heads of %d packages", s.Key, heads, len(s.Packages))
	}
}

// The resolver can upgrade every version in a channel to the head, one step at a time.
func TestUpgradesEveryCorpusVersionToItsHead(t *testing.T) {
	for _, dir := range []string{"bundles", "catalogs/v4.20"} {
		s := loadCorpus(t, dir)
		in := world(s)
		in.Serves = func(schema.GroupVersionKind) bool { return true }
		steps := 0
		for _, name := range s.PackageNames() {
			for _, channel := range s.Packages[name].ChannelNames() {
				head, err := s.Packages[name].Channels[channel].Head()
				require.NoError(t, err)
				for entry := range s.Packages[name].Channels[channel].Entries {
					subject := subjectOf(s, name, channel)
					for at := entry; at != head.Name; steps++ {
						require.Less(t, steps, 100_000)
						subject.Installed = csvNamed(at)
						require.NoError(t, subject.Installed.Spec.Version.UnmarshalJSON([]byte(`"`+s.Packages[name].Bundles[at].Version+`"`)))
						got := in.resolve(Namespace{Subjects: []Subject{subject}})
						require.NotEmpty(t, got.Sets, "%s %s: no upgrade from %s", name, channel, at)
						require.Equal(t, at, got.Sets[0][0].Replaces)
						at = got.Sets[0][0].Bundle
					}
				}
			}
		}
		t.Logf("%s: %d steps", dir, steps)
	}
}
