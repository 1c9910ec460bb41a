package escape

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/env"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
)

// extension is a ClusterExtension of a row. It installs the package probe from its own ClusterCatalog into the scene's
// namespace, and its operator watches only that namespace.
type extension struct {
	*env.Extension
	scene *scene
	// namespace is the namespace into which the ClusterExtension installs.
	namespace string
	// catalog is the name of its ClusterCatalog.
	catalog string
}

// extension returns a ClusterExtension that does not exist yet, and publishes bundles for it.
func (s *scene) extension(name string, bundles ...*forge.Bundle) *extension {
	s.T.Helper()
	x := s.extensionNamed(s.Namespace + "-" + name)
	x.offer(bundles...)
	return x
}

// extensionNamed is like extension, but with this name and no ClusterCatalog.
func (s *scene) extensionNamed(name string) *extension {
	s.T.Helper()
	s.told.Extensions = append(s.told.Extensions, name)
	return &extension{Extension: &env.Extension{T: s.T, Cluster: cluster, Name: name, Since: s.audited}, scene: s, namespace: s.Namespace}
}

// offer publishes bundles in a new ClusterCatalog for the ClusterExtension.
func (x *extension) offer(bundles ...*forge.Bundle) {
	x.T.Helper()
	x.catalog = x.scene.clusterCatalog(forge.Catalog(bundles...))
}

// clusterCatalog publishes a file-based catalog in a ClusterCatalog, and returns its name.
func (s *scene) clusterCatalog(text string) string {
	s.T.Helper()
	s.catalogs++
	name := fmt.Sprintf("%s-%d", s.Namespace, s.catalogs)
	cluster.ServeCatalog(s.T, images, name, text)
	return name
}

// as returns the ClusterExtension, without creating it, with the given ServiceAccount, or without one if account is "".
func (x *extension) as(account string) *olmv1.ClusterExtension {
	ext := env.NewClusterExtension(x.Name, probe)
	ext.Spec.Namespace, ext.Spec.ServiceAccount.Name = x.namespace, account
	ext.Spec.Source.Catalog.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{olmv1.LabelMetadataName: x.catalog}}
	ext.Spec.Config = &olmv1.ClusterExtensionConfig{ConfigType: olmv1.ClusterExtensionConfigTypeInline,
		Inline: &apiextensionsv1.JSON{Raw: []byte(`{"watchNamespace":"` + x.namespace + `"}`)}}
	return ext
}

// create creates the ClusterExtension as the cluster administrator. It is deleted after the row.
func (x *extension) create(ext *olmv1.ClusterExtension) {
	x.T.Helper()
	x.scene.createOutside(ext)
}

// edit changes the ClusterExtension with the given client.
func (x *extension) edit(c client.Client, edit func(*olmv1.ClusterExtension)) error {
	x.T.Helper()
	ext := x.Get()
	before := ext.DeepCopy()
	edit(ext)
	return c.Patch(x.T.Context(), ext, client.MergeFrom(before))
}

// discard deletes the ClusterExtension if a user in the row has created it.
func (x *extension) discard() { _ = cluster.Client.Delete(context.Background(), x.as("")) }

// enroll allows Remit to act as the synthetic user.
func (x *extension) enroll() {
	x.T.Helper()
	for _, obj := range scoped.ExtensionEnrollment(x.User(), cluster.Home, scoped.ImpersonationConstrained) {
		x.scene.createOutside(obj)
	}
}

// enrollAccount allows Remit to request tokens for a ServiceAccount of the scene, for ClusterExtensions.
func (s *scene) enrollAccount(name string) {
	s.T.Helper()
	for _, obj := range scoped.ExtensionAccountEnrollment(client.ObjectKey{Namespace: s.Namespace, Name: name}, cluster.Home) {
		s.Create(obj)
	}
}

// grant grants the synthetic user a profile.
func (x *extension) grant(holds profile) {
	x.T.Helper()
	x.scene.bind(x.User().Subject(), x.Name, holds)
}

// install creates the ClusterExtension without a ServiceAccount. Its user is enrolled and has a profile.
func (x *extension) install(holds profile) {
	x.T.Helper()
	x.enroll()
	x.grant(holds)
	x.create(x.as(""))
}

// refused waits until the install is blocked or retried, with a message that contains these words, and asserts that nothing was
// written.
func (x *extension) refused(words ...string) {
	x.T.Helper()
	x.stuck(words...)
	x.nothingWritten(x.Since)
}

// stuck waits until the install is blocked or retried, with a message that contains these words.
func (x *extension) stuck(words ...string) {
	x.T.Helper()
	x.scene.Eventually(func(c *assert.CollectT) {
		got := condition(x.Get(), olmv1.TypeProgressing)
		assert.Contains(c, []string{olmv1.ReasonBlocked, olmv1.ReasonRetrying}, got.Reason, got.Message)
		for _, w := range words {
			assert.Contains(c, got.Message, w)
		}
	})
}

func condition(ext *olmv1.ClusterExtension, kind string) metav1.Condition {
	for _, c := range ext.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// unused asserts that Remit has sent no request as the identity, not even a read, after an offset of the audit log.
func (x *extension) unused(as scoped.Identity, from int64) {
	x.T.Helper()
	require.Empty(x.T, x.RequestsAs(as, from))
}

// writes returns the requests that could have changed an object and were sent as an identity after an offset of the audit log.
// It omits access reviews.
func (x *extension) writes(as scoped.Identity, from int64) []audit.Event {
	x.T.Helper()
	return slices.DeleteFunc(x.RequestsAs(as, from), func(e audit.Event) bool {
		return !e.IsWrite() || isReview(e) || e.Object != nil && e.Object.APIGroup == "authentication.k8s.io"
	})
}

// nothingWritten asserts that nothing was written as the identity after an offset of the audit log.
func (x *extension) nothingWritten(from int64) {
	x.T.Helper()
	require.Empty(x.T, x.writes(x.Identity(), from))
}

// unminted asserts that none of Remit's programs has requested a token for a ServiceAccount of the scene.
func (s *scene) unminted(account string) {
	s.T.Helper()
	require.Empty(s.T, s.requests(func(e audit.Event) bool {
		return cluster.ControllerIdentities().Is(e) && e.Object != nil && e.Object.Subresource == "token" &&
			e.Object.Namespace == s.Namespace && e.Object.Name == account
	}))
}

// settleExtensions is like settle, but for the program for ClusterExtensions.
func (s *scene) settleExtensions() {
	s.T.Helper()
	require.NoError(s.T, judge.BeatExtensions(s.T.Context()))
}

// waitSince waits until an object that was created at this time is clearly older than any ClusterExtension created afterwards.
func (s *scene) waitSince(created time.Time) {
	s.T.Helper()
	s.Eventually(func(c *assert.CollectT) { assert.Greater(c, time.Since(created), 7*time.Second) })
}

// owner returns the owner of what the ClusterExtension installs.
func (x *extension) owner() ownerutil.Owner {
	x.T.Helper()
	return assess.Owner(x.Get(), probeCSV)
}

// manager returns the field manager of the ClusterExtension.
func (x *extension) manager() client.FieldOwner {
	return client.FieldOwner(names.FieldManager + "-" + (ownerutil.Lineage{Extension: x.Name}).ShortMark())
}

// disguise gives an object the labels and the owner reference of the ClusterExtension's objects and, unless proof is "", the
// proof.
func (x *extension) disguise(obj *unstructured.Unstructured, proof string) {
	x.T.Helper()
	owner := x.owner()
	obj.SetLabels(owner.Labels())
	obj.SetOwnerReferences([]metav1.OwnerReference{owner.Reference()})
	if proof != "" {
		obj.SetAnnotations(map[string]string{proofAnnotation: proof})
	}
}

// installedObject reads an object in the scene's namespace.
func (s *scene) installedObject(apiVersion, kind, name string) *unstructured.Unstructured {
	s.T.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	require.NoError(s.T, s.Get(name, obj))
	return obj
}

// standard are the objects of the harmless CSV that have fixed names.
func (s *scene) standard() []*unstructured.Unstructured {
	s.T.Helper()
	return []*unstructured.Unstructured{
		s.installedObject("v1", "ServiceAccount", forge.ServiceAccount), s.installedObject("apps/v1", "Deployment", forge.Deployment),
	}
}

// same asserts that objects have not been changed or recreated since they were read. It ignores their status.
func (s *scene) same(before ...*unstructured.Unstructured) {
	s.T.Helper()
	for _, obj := range before {
		after := s.installedObject(obj.GetAPIVersion(), obj.GetKind(), obj.GetName())
		require.Equal(s.T, obj.GetUID(), after.GetUID())
		require.Equal(s.T, obj.GetGeneration(), after.GetGeneration())
		require.Equal(s.T, obj.GetLabels(), after.GetLabels())
		require.Equal(s.T, obj.GetOwnerReferences(), after.GetOwnerReferences())
		require.Nil(s.T, after.GetDeletionTimestamp())
	}
}

// author is a user who may write ClusterExtensions cluster-wide, and nothing else.
const author = "author"

// extensionAuthor creates the user and returns the user's client, once the API server has observed the permissions.
func (s *scene) extensionAuthor(more ...rbacv1.PolicyRule) client.Client {
	s.T.Helper()
	s.bind(s.authorSubject(), author, profile{cluster: append(more,
		rule(olmv1.GroupVersion.Group, "clusterextensions", "create", "delete", "get", "list", "patch", "update"))})
	c := cluster.As(s.T, s.authorSubject().Name)
	s.Eventually(func(t *assert.CollectT) {
		assert.NoError(t, c.List(s.T.Context(), &olmv1.ClusterExtensionList{}))
	})
	return c
}

func (s *scene) authorSubject() rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: author + "-" + s.Namespace}
}

// named limits a rule to objects with these names.
func named(rule rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	rule.ResourceNames = names
	return rule
}

// authorRefused asserts that the author check refused a request.
func (s *scene) authorRefused(err error) {
	s.T.Helper()
	require.True(s.T, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(s.T, err, "remit-extension-author-check")
}

// cannotCreate asserts that the author check refuses every kind of request that would create a ClusterExtension.
func (s *scene) cannotCreate(c client.Client, ext *olmv1.ClusterExtension) {
	s.T.Helper()
	s.authorRefused(c.Create(s.T.Context(), ext.DeepCopy()))
	applied := ext.DeepCopy()
	applied.SetGroupVersionKind(olmv1.GroupVersion.WithKind(olmv1.KindClusterExtension))
	content, err := toUnstructured(applied)
	require.NoError(s.T, err)
	s.authorRefused(c.Apply(s.T.Context(), client.ApplyConfigurationFromUnstructured(content), client.FieldOwner("x")))
	generated := ext.DeepCopy()
	generated.GenerateName, generated.Name = ext.Name, ""
	s.authorRefused(c.Create(s.T.Context(), generated))
	require.Error(s.T, c.Update(s.T.Context(), ext.DeepCopy()), "an update does not create")
	err = cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(ext), &olmv1.ClusterExtension{})
	require.True(s.T, apierrors.IsNotFound(err), "%v", err)
}

// toUnstructured converts an object without its status.
func toUnstructured(obj client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, err
}
