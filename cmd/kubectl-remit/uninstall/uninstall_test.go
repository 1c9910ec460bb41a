package uninstall

import (
	"bytes"
	"testing"
	"time"

	"github.com/operator-framework/api/crds"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/cli"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/controlplane"
)

// site is a namespace with the Subscription and the ClusterServiceVersion of package "a". Remit does not run.
type site struct {
	*testing.T
	client.Client
	cluster   *controlplane.Instance
	namespace string
	lineage   ownerutil.Lineage
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, cluster: controlplane.Shared(t), namespace: "uninstall-" + rand.String(5)}
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	s.Client, err = client.New(s.cluster.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{crds.Subscription(), crds.ClusterServiceVersion()} {
		require.NoError(t, client.IgnoreAlreadyExists(s.Create(t.Context(), crd)))
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, s.List(t.Context(), &operatorsv1alpha1.SubscriptionList{}))
		assert.NoError(c, s.List(t.Context(), &operatorsv1alpha1.ClusterServiceVersionList{}))
	}, env.Patience, env.Patience/1000, "the API is served")
	s.lineage = ownerutil.Lineage{Package: "a", Namespace: s.namespace}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}},
		&operatorsv1alpha1.Subscription{ObjectMeta: s.meta("sub"), Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "a"}},
		s.csv("a.v1", s.group()))
	return s
}

func (s *site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{names.LabelLineage: s.lineage.Mark()}}
}

// group is an API group that no other test uses.
func (s *site) group() string { return s.namespace + ".example.com" }

// csv returns a ClusterServiceVersion of the site's lineage. It owns the kind Gadget in an API group.
func (s *site) csv(name, group string) *operatorsv1alpha1.ClusterServiceVersion {
	s.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	require.NoError(s, yaml.Unmarshal([]byte(env.PlainCSV("plain", "")), csv))
	csv.ObjectMeta = s.meta(name)
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "gadgets." + group, Version: "v1", Kind: "Gadget"}}
	return csv
}

// crd creates the CustomResourceDefinition of the kind Gadget, with the label of a lineage, and waits until it is served.
func (s *site) crd(lineage ownerutil.Lineage) *apiextensionsv1.CustomResourceDefinition {
	s.Helper()
	crd := env.Gadgets(s.group())
	crd.Labels = map[string]string{names.LabelLineage: lineage.Mark()}
	s.create(crd)
	require.EventuallyWithT(s, func(c *assert.CollectT) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(s.group() + "/v1")
		list.SetKind("GadgetList")
		assert.NoError(c, s.List(s.Context(), list))
	}, env.Patience, env.Patience/1000)
	return crd
}

func (s *site) create(objs ...client.Object) {
	s.Helper()
	for _, obj := range objs {
		require.NoError(s, s.Create(s.Context(), obj))
	}
}

func (s *site) exists(obj client.Object) bool {
	s.Helper()
	err := s.Get(s.Context(), client.ObjectKeyFromObject(obj), obj)
	require.NoError(s, client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

// uninstall runs the command and returns standard output, standard error and the exit code.
func (s *site) uninstall(args ...string) (out, notes string, code int) {
	s.Helper()
	cmd := NewCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"sub", "-n", s.namespace, "--kubeconfig=" + s.cluster.Kubeconfig}, args...))
	err := cmd.ExecuteContext(s.Context())
	if err != nil {
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), cli.ExitCode(err)
}

func TestDeletesOnlyWhatBelongsToTheSubscription(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	crd := s.crd(s.lineage)
	other := s.csv("other.v1", "other.example.com")
	other.Labels = nil
	dependency := &operatorsv1alpha1.Subscription{ObjectMeta: s.meta("dep"), Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "b"}}
	dependency.Annotations = map[string]string{names.AnnotationGeneratedBy: "sub"}
	s.create(other, dependency)
	sub := &operatorsv1alpha1.Subscription{ObjectMeta: s.meta("sub")}
	require.True(t, s.exists(sub))
	sub.Status.InstalledCSV, sub.Status.LastUpdated = "other.v1", metav1.Now() // as if a user had written another version to the status
	require.NoError(t, s.Status().Update(t.Context(), sub))

	out, notes, code := s.uninstall("--dry-run")
	require.Equal(t, "subscription.operators.coreos.com/sub deleted (dry run)\nclusterserviceversion.operators.coreos.com/a.v1 deleted (dry run)\n", out)
	require.Zero(t, code, notes)
	require.True(t, s.exists(sub))

	out, notes, code = s.uninstall()
	require.Zero(t, code, notes)
	require.Equal(t, "subscription.operators.coreos.com/sub deleted\nclusterserviceversion.operators.coreos.com/a.v1 deleted\n", out)
	require.Contains(t, notes, "note: ClusterServiceVersion other.v1 was not created for package \"a\"")
	require.Contains(t, notes, "note: Subscription dep was created as a dependency of sub and is not deleted")
	require.Contains(t, notes, "note: CustomResourceDefinition "+crd.Name+" is kept")
	require.True(t, s.exists(other))
	require.True(t, s.exists(dependency))
	require.True(t, s.exists(crd))
	_, notes, code = s.uninstall()
	require.Equal(t, cli.CodeError, code)
	require.Contains(t, notes, "not found")
}

func TestRefusesToDeleteKindsThatAreInUse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	crd := s.crd(s.lineage)
	gadget := &unstructured.Unstructured{}
	gadget.SetAPIVersion(s.group() + "/v1")
	gadget.SetKind("Gadget")
	gadget.SetNamespace("default")
	gadget.SetName("mine")
	s.create(gadget)
	otherNamespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-b"}}
	user, copied := s.csv("b.v1", s.group()), s.csv("a.v1", s.group())
	user.Namespace, copied.Namespace = otherNamespace.Name, otherNamespace.Name
	user.Labels, copied.Labels = nil, map[string]string{names.LabelCopiedFrom: s.namespace}
	s.create(otherNamespace, user, copied)

	out, notes, code := s.uninstall("--crds")
	require.Equal(t, cli.CodeMissing, code)
	require.Empty(t, out)
	require.Contains(t, notes, "refused: objects of CustomResourceDefinition "+crd.Name+" exist: default/mine. Delete them first")
	require.Contains(t, notes, "refused: ClusterServiceVersion "+otherNamespace.Name+"/b.v1 needs CustomResourceDefinition "+crd.Name)
	require.NotContains(t, notes, "/a.v1 needs")
	require.True(t, s.exists(&operatorsv1alpha1.Subscription{ObjectMeta: s.meta("sub")}))

	require.NoError(t, s.Delete(t.Context(), user))
	out, notes, code = s.uninstall("--crds", "--delete-custom-resources")
	require.Zero(t, code, notes)
	require.Equal(t, "gadget."+s.group()+"/mine in namespace default deleted\nsubscription.operators.coreos.com/sub deleted\n"+
		"clusterserviceversion.operators.coreos.com/a.v1 deleted\ncustomresourcedefinition.apiextensions.k8s.io/"+crd.Name+" deleted\n", out)
	require.False(t, s.exists(crd))
}

// The API server stores a definition whose kind another one has, and serves the other one. The objects of that one belong to others.
func TestObjectsOfAnotherDefinitionOfTheKindAreNotDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.crd(ownerutil.Lineage{Package: "victim", Namespace: "other"})
	gadget := &unstructured.Unstructured{}
	gadget.SetAPIVersion(s.group() + "/v1")
	gadget.SetKind("Gadget")
	gadget.SetNamespace("default")
	gadget.SetName("victim")
	s.create(gadget)
	decoy := env.Gadgets(s.group())
	decoy.Name, decoy.Labels = "decoys."+s.group(), map[string]string{names.LabelLineage: s.lineage.Mark()}
	decoy.Spec.Names.Plural, decoy.Spec.Names.Singular = "decoys", "decoy"
	s.create(decoy)
	csv := s.csv("a.v1", s.group())
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(csv), csv))
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: decoy.Name, Version: "v1", Kind: "Gadget"}}
	require.NoError(t, s.Update(t.Context(), csv))

	out, notes, code := s.uninstall("--crds", "--delete-custom-resources")
	require.Zero(t, code, notes)
	require.NotContains(t, out, "victim")
	require.True(t, s.exists(gadget))
	require.False(t, s.exists(decoy))
}

// Clients derive the kind of a list from that of its objects. A kind that itself ends in "List" must not become that of another definition.
func TestKeepsKindsThatAreCalledList(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	define := func(plural, kind, list string) *apiextensionsv1.CustomResourceDefinition {
		out := env.Gadgets(s.group())
		out.Name, out.Labels = plural+"."+s.group(), map[string]string{names.LabelLineage: s.lineage.Mark()}
		out.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural + "-one", Kind: kind, ListKind: list}
		s.create(out)
		return out
	}
	define("allows", "Allow", "Allows")
	lists := define("allowlists", "AllowList", "AllowListList")
	mine := &unstructured.Unstructured{}
	mine.SetAPIVersion(s.group() + "/v1")
	mine.SetKind("AllowList")
	mine.SetNamespace("default")
	mine.SetName("victim")
	require.EventuallyWithT(t, func(ct *assert.CollectT) { assert.NoError(ct, s.Create(t.Context(), mine.DeepCopy())) }, time.Minute, 50*time.Millisecond)
	csv := s.csv("a.v1", s.group())
	require.NoError(t, s.Get(t.Context(), client.ObjectKeyFromObject(csv), csv))
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: lists.Name, Version: "v1", Kind: "AllowList"}}
	require.NoError(t, s.Update(t.Context(), csv))

	_, notes, code := s.uninstall("--crds")
	require.NotZero(t, code)
	require.Contains(t, notes, "objects of CustomResourceDefinition "+lists.Name+" exist: default/victim")
	require.True(t, s.exists(lists))
	require.True(t, s.exists(mine))
}

// The users of the operator's namespace decide how long the deletion takes. Meanwhile, others use the kind.
func TestKeepsKindsThatAreUsedByNow(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--crds"}, {"--crds", "--delete-custom-resources"}} {
		s := newSite(t)
		crd, sub := s.crd(s.lineage), &operatorsv1alpha1.Subscription{ObjectMeta: s.meta("sub")}
		patch := func(finalizers string) client.Patch {
			return client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		}
		require.NoError(t, s.Patch(t.Context(), sub, patch(`["example.com/slow"]`)))
		gadget := &unstructured.Unstructured{}
		gadget.SetAPIVersion(s.group() + "/v1")
		gadget.SetKind("Gadget")
		gadget.SetNamespace("default")
		gadget.SetName("mine")
		go func() {
			assert.EventuallyWithT(t, func(c *assert.CollectT) {
				live := &operatorsv1alpha1.Subscription{}
				if assert.NoError(c, s.Get(t.Context(), client.ObjectKeyFromObject(sub), live)) {
					assert.NotNil(c, live.DeletionTimestamp)
				}
			}, env.Patience, env.Patience/1000)
			user := s.csv("b.v1", s.group())
			user.Namespace, user.Labels = "default", nil
			user.Name = s.namespace
			assert.NoError(t, s.Create(t.Context(), gadget.DeepCopy()))
			assert.NoError(t, s.Create(t.Context(), user))
			assert.NoError(t, s.Patch(t.Context(), sub.DeepCopy(), patch("null")))
		}()
		out, notes, code := s.uninstall(args...)
		require.Equal(t, cli.CodeMissing, code)
		require.Equal(t, "subscription.operators.coreos.com/sub deleted\nclusterserviceversion.operators.coreos.com/a.v1 deleted\n"+
			"customresourcedefinition.apiextensions.k8s.io/"+crd.Name+" remains\n", out)
		require.Contains(t, notes, "note: the CustomResourceDefinitions are kept: objects of CustomResourceDefinition "+crd.Name+
			" exist: default/mine; to delete it and all of its objects: kubectl delete crd "+crd.Name+"\n")
		require.Contains(t, notes, "note: the CustomResourceDefinitions are kept: ClusterServiceVersion default/"+s.namespace+" needs CustomResourceDefinition "+crd.Name+"\n")
		require.True(t, s.exists(gadget))
		require.NoError(t, s.Delete(t.Context(), &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.namespace}}))
	}
}

func TestKeepsKindsOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	crd := s.crd(ownerutil.Lineage{Package: "a", Namespace: "other"})
	out, notes, code := s.uninstall("--crds")
	require.Zero(t, code, notes)
	require.NotContains(t, out, crd.Name)
	require.Contains(t, notes, "note: CustomResourceDefinition "+crd.Name+" was not created for package \"a\"")
	require.True(t, s.exists(crd))
}

func TestReportsWhatRemains(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: s.meta("a.v1")}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["operators.coreos.com/csv-cleanup"]}}`))
	require.NoError(t, s.Patch(t.Context(), csv, patch))
	out, notes, code := s.uninstall("--timeout=5s")
	require.Equal(t, cli.CodeMissing, code)
	require.Contains(t, out, "clusterserviceversion.operators.coreos.com/a.v1 remains\n")
	require.Contains(t, notes, "kubectl get events -n "+s.namespace)

	// If Remit does not remove a role after the ClusterServiceVersion is removed, the command reports the role.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: map[string]string{names.LabelLineage: s.lineage.Mark()}}}
	s.create(role, &operatorsv1alpha1.Subscription{ObjectMeta: s.meta("sub"), Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "a"}})
	require.NoError(t, s.Patch(t.Context(), csv, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	out, _, code = s.uninstall("--timeout=10s")
	require.Equal(t, cli.CodeMissing, code)
	require.Contains(t, out, "clusterrole.rbac.authorization.k8s.io/"+s.namespace+" remains\n")
	require.NotContains(t, out, "a.v1 remains")
	require.NoError(t, s.Delete(t.Context(), role))
}

func TestRefusesAnInstallWithASecondSubscription(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.create(&operatorsv1alpha1.Subscription{ObjectMeta: s.meta("second"), Spec: &operatorsv1alpha1.SubscriptionSpec{Package: "a"}})
	_, notes, code := s.uninstall()
	require.Equal(t, cli.CodeMissing, code)
	require.Contains(t, notes, "refused: Subscription second is for the same package")
	_, notes, code = s.uninstall("--delete-custom-resources")
	require.Equal(t, cli.CodeError, code)
	require.Contains(t, notes, "--delete-custom-resources requires --crds")
}
