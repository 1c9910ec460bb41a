package clusterextension

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/resolver"
)

const keptCSV = `{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "op.v1"},
  "spec": {"version": "1.0.0", "install": {"strategy": "deployment", "spec": {"deployments": []}}}}`

// oneContent is the manifest of one bundle.
type oneContent string

// Content implements catalog.ContentReader.
func (c oneContent) Content(context.Context, string, string, string) (*catalog.Content, error) {
	return &catalog.Content{Manifests: [][]byte{[]byte(c)}}, nil
}

// asked records on whose behalf a content is requested.
type asked struct {
	oneContent

	by *string
}

func (a asked) Content(ctx context.Context, _, _, _ string) (*catalog.Content, error) {
	*a.by = catalog.Requester(ctx)
	return a.oneContent.Content(ctx, "", "", "")
}

// Images are read in turns, so that one tenant with many extensions does not delay others.
func TestContentsAreRequestedForTheNamespaceOfTheExtension(t *testing.T) {
	ext := installed()
	ext.Spec.Namespace = "tenant"
	s := givenContent(t, ext).begin(ext)
	by := ""
	s.resolved = resolve.Result{Package: &catalog.Package{Name: "op"}, Snapshot: &catalog.Snapshot{Reader: asked{keptCSV, &by}}}
	_, err := s.contentOf(t.Context(), "stable", &catalog.Bundle{Name: "op.v1", Image: "r/op:v1"})
	require.NoError(t, err)
	require.Equal(t, "tenant", by)
}

// textProofs are proofs without keys and times, which the fake client does not set.
type textProofs struct{ Proofs }

func (textProofs) Sign(desired *unstructured.Unstructured, holder string, _ *unstructured.Unstructured) error {
	apply.Annotate(desired, names.AnnotationProof, ownerutil.Hash(desired.GetName(), holder))
	return nil
}

func (textProofs) Proves(obj client.Object, holder string) bool {
	return obj.GetAnnotations()[names.AnnotationProof] == ownerutil.Hash(obj.GetName(), holder)
}

func givenContent(t *testing.T, ext *olmv1.ClusterExtension) *unit {
	t.Helper()
	u := givenUnit(t, interceptor.Funcs{}, ext)
	u.Proofs = textProofs{u.Proofs}
	return u
}

// installed returns an extension with version 1.0.0 of package op.
func installed() *olmv1.ClusterExtension {
	return extension("op", func(ext *olmv1.ClusterExtension) {
		ext.Status.Install = &olmv1.ClusterExtensionInstallStatus{Bundle: olmv1.BundleMetadata{Name: "op.v1", Version: "1.0.0"}}
	})
}

// keep begins a run that has installed the content, and keeps it.
func (u *unit) keep(ext *olmv1.ClusterExtension, text string) (problem string) {
	u.t.Helper()
	s := u.begin(ext)
	raw := oneContent(text)
	read, _ := raw.Content(u.t.Context(), "", "", "")
	parsed, err := bundle.ParseContent(u.t.Context(), read)
	require.NoError(u.t, err)
	s.resolved = resolve.Result{
		Package: &catalog.Package{Name: "op"}, Channel: "stable", Bundle: &catalog.Bundle{Name: "op.v1", Version: "1.0.0"}, Snapshot: &catalog.Snapshot{Reader: raw},
	}
	s.bundle = parsed
	u.memory.Change("op", func(is *remembered) {
		is.content = &content{key: "1", name: "op.v1", digest: read.Digest(), bundle: parsed}
	})
	problem = s.keepContent(u.t.Context())
	require.NoError(u.t, s.unpublished)
	return problem
}

func (u *unit) contentMap() *corev1.ConfigMap {
	u.t.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(u.t, u.Client.Get(u.t.Context(), client.ObjectKey{Namespace: "remit", Name: ContentName("op")}, cm))
	return cm
}

// restarted forgets everything that the program remembers.
func (u *unit) restarted() *unit {
	u.Reconciler.memory = &memory{}
	return u
}

func TestContentIsKeptAcrossRestarts(t *testing.T) {
	t.Parallel()
	ext := installed()
	u := givenContent(t, ext)
	_, why, err := u.begin(ext).installedContent(t.Context())
	require.NoError(t, err)
	require.Contains(t, why, "was not kept in ConfigMap remit/remit-content-clusterextension-op")

	require.Empty(t, u.keep(ext, keptCSV))
	require.Equal(t, ext.UID, u.contentMap().OwnerReferences[0].UID, "the garbage collector removes it with the extension")
	version := u.contentMap().ResourceVersion
	b, why, err := u.restarted().begin(ext).installedContent(t.Context())
	require.NoError(t, err)
	require.Empty(t, why)
	require.Equal(t, "op.v1", b.CSV.Name)
	require.Empty(t, u.restarted().keep(ext, keptCSV))
	require.Equal(t, version, u.contentMap().ResourceVersion, "nothing is written again")
	require.Empty(t, u.restarted().keep(ext, keptCSV+" "))
	require.NotEqual(t, version, u.contentMap().ResourceVersion, "the catalog has other content for this version")
}

// Whoever can write ConfigMaps in Remit's namespace can remove the content, but cannot choose what is installed.
func TestKeptContentThatWasChangedIsNotUsed(t *testing.T) {
	t.Parallel()
	other, err := resolver.Pack([]*catalog.Content{{Manifests: [][]byte{[]byte(keptCSV + " ")}}}, maxKept)
	require.NoError(t, err)
	for name, row := range map[string]struct {
		change func(cm *corev1.ConfigMap)
		ext    func(ext *olmv1.ClusterExtension)
		why    string
	}{
		"other content":   {change: func(cm *corev1.ConfigMap) { cm.Data[keyContent] = other }, why: "its content was changed"},
		"no content":      {change: func(cm *corev1.ConfigMap) { delete(cm.Data, keyContent) }, why: "its content was changed"},
		"another digest":  {change: func(cm *corev1.ConfigMap) { cm.Data[keyBundle] = `{"package":"op","name":"op.v1","version":"1.0.0"}` }, why: "was not created by Remit"},
		"no proof":        {change: func(cm *corev1.ConfigMap) { cm.Annotations = nil }, why: "was not created by Remit"},
		"another version": {ext: func(ext *olmv1.ClusterExtension) { ext.Status.Install.Bundle.Version = "1.0.1" }, why: "which is not the installed one"},
		"another bundle":  {ext: func(ext *olmv1.ClusterExtension) { ext.Status.Install.Bundle.Name = "op.v2" }, why: "which is not the installed one"},
		"another package": {ext: func(ext *olmv1.ClusterExtension) { ext.Spec.Source.Catalog.PackageName = "other" }, why: "which is not the installed one"},
		"another UID":     {ext: func(ext *olmv1.ClusterExtension) { ext.UID = "later" }, why: "was not created by Remit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ext := installed()
			u := givenContent(t, ext)
			require.Empty(t, u.keep(ext, keptCSV))
			u.restarted()
			if row.change != nil {
				cm := u.contentMap()
				require.NoError(t, u.Client.Delete(t.Context(), cm))
				cm.ResourceVersion, cm.ManagedFields = "", nil
				row.change(cm)
				require.NoError(t, u.Client.Create(t.Context(), cm))
			}
			if row.ext != nil {
				row.ext(ext)
			}
			b, why, err := u.begin(ext).installedContent(t.Context())
			require.NoError(t, err)
			require.Nil(t, b)
			require.Contains(t, why, row.why)
		})
	}
}

func TestContentThatIsTooLargeIsReported(t *testing.T) {
	t.Parallel()
	ext := installed()
	u := givenContent(t, ext)
	noise := make([]byte, maxKept*3/4)
	_, _ = rand.Read(noise)
	text := strings.Replace(keptCSV, `"name": "op.v1"`, `"name": "op.v1", "annotations": {"noise": "`+base64.StdEncoding.EncodeToString(noise)+`"}`, 1)
	require.Contains(t, u.keep(ext, text), "is not kept")
	require.Contains(t, u.begin(ext).keepContent(t.Context()), "is not kept", "the status keeps reporting it")
}

// The condition Available is based on what this program has observed.
func TestAvailableIsUnknownUntilObserved(t *testing.T) {
	t.Parallel()
	ext := installed()
	ext.Status.Conditions = []metav1.Condition{{Type: olmv1.TypeAvailable, Status: metav1.ConditionTrue, Reason: olmv1.ReasonSucceeded, Message: allAvailable}}
	u := givenUnit(t, interceptor.Funcs{}, ext)
	s := u.begin(ext)
	require.NoError(t, s.conclude(t.Context(), waiting("something is missing"), nil))
	c := meta.FindStatusCondition(s.ext.Status.Conditions, olmv1.TypeAvailable)
	require.Equal(t, "Unknown "+olmv1.ReasonNotObserved, string(c.Status)+" "+c.Reason)
}

// The name of a bundle's ClusterServiceVersion may differ from that of the bundle, which identifies the installed version.
func TestReadsBundlesWhoseClusterServiceVersionHasAnotherName(t *testing.T) {
	t.Parallel()
	ext := extension("op")
	u := givenUnit(t, interceptor.Funcs{}, ext)
	s := u.begin(ext)
	s.resolved = resolve.Result{
		Package: &catalog.Package{Name: "op"}, Channel: "stable", Bundle: &catalog.Bundle{Name: "other.v1", Version: "1.0.0"},
		Snapshot: &catalog.Snapshot{Reader: oneContent(keptCSV)},
	}
	out, err := readBundle(t.Context(), s)
	require.NoError(t, err)
	require.False(t, out.stopped, out.progressing.Message)
	require.Equal(t, "op.v1", s.bundle.CSV.Name)
	require.Equal(t, "other.v1", s.bundleName())
	require.Equal(t, "other.v1", u.memory.Get("op").content.name)
}
