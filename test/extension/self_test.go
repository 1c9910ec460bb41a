package extension

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// thief returns a client with the permissions of the program's ServiceAccount. It sends only dry runs, which the API server
// authorizes and admits like other requests.
func thief(t *testing.T) client.Client {
	t.Helper()
	return client.NewDryRunClient(cluster.As(t, scoped.Username(cluster.Home, names.ServiceAccountExtension), "system:serviceaccounts"))
}

// The policies allow the program's own changes and deny all others that its permissions would allow.
func TestTheProgramChangesOnlyTheLabelOfAClusterCatalog(t *testing.T) {
	t.Parallel()
	self := thief(t)
	ref, _ := push(t, "labeled:v1", packages("a"))
	k := create(t, "labeled", ref, func(k *olmv1.ClusterCatalog) { k.Labels = map[string]string{"team": "a"} })
	await(t, "labeled", olmv1.ReasonAvailable)
	patch := func(text string) error {
		return self.Patch(t.Context(), k.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	require.NoError(t, patch(`{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"labeled"}}}`))
	for what, text := range map[string]string{
		"the source":      `{"spec":{"source":{"image":{"ref":"example.com/evil:v1"}}}}`,
		"the priority":    `{"spec":{"priority":100}}`,
		"an annotation":   `{"metadata":{"annotations":{"a":"b"}}}`,
		"another label":   `{"metadata":{"labels":{"team":"b"}}}`,
		"a removed label": `{"metadata":{"labels":{"team":null}}}`,
		"a new label":     `{"metadata":{"labels":{"other":"b"}}}`,
		"another name":    `{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":"x"}}}`,
		"no name":         `{"metadata":{"labels":{"olm.operatorframework.io/metadata.name":null}}}`,
		"a finalizer":     `{"metadata":{"finalizers":["example.com/x"]}}`,
	} {
		require.ErrorContains(t, patch(text), "remit-extension may set only the label", what)
	}
	require.True(t, apierrors.IsForbidden(self.Create(t.Context(), &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: k.Spec})))
	require.True(t, apierrors.IsForbidden(self.Delete(t.Context(), k)))
}

func TestTheProgramChangesOnlyTheFinalizerOfAClusterExtension(t *testing.T) {
	t.Parallel()
	self := thief(t)
	ext := &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: "finalized", Finalizers: []string{"example.com/x"}}}
	ext.Spec.Namespace = "default"
	ext.Spec.Source = olmv1.SourceConfig{SourceType: olmv1.SourceTypeCatalog, Catalog: &olmv1.CatalogFilter{PackageName: "no-such-package"}}
	require.NoError(t, cluster.Client.Create(t.Context(), ext))
	t.Cleanup(func() {
		_ = cluster.Client.Patch(context.Background(), ext, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		_ = cluster.Client.Delete(context.Background(), ext)
	})
	patch := func(text string) error {
		return self.Patch(t.Context(), ext.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	require.NoError(t, patch(`{"metadata":{"finalizers":["example.com/x","olm.operatorframework.io/reset-conversions"]}}`))
	for what, text := range map[string]string{
		"an annotation":       `{"metadata":{"annotations":{"a":"b"}}}`,
		"a label":             `{"metadata":{"labels":{"a":"b"}}}`,
		"another finalizer":   `{"metadata":{"finalizers":["example.com/x","example.com/y"]}}`,
		"a removed finalizer": `{"metadata":{"finalizers":["olm.operatorframework.io/reset-conversions"]}}`,
	} {
		require.ErrorContains(t, patch(text), "remit-extension may change only the finalizer", what)
	}
	for _, text := range []string{`{"spec":{"source":{"catalog":{"version":"1.0.0"}}}}`, `{"spec":{"serviceAccount":{"name":"admin"}}}`} {
		require.ErrorContains(t, patch(text), "ValidatingAdmissionPolicy", "another policy also denies it")
	}
	require.True(t, apierrors.IsForbidden(self.Delete(t.Context(), ext)))
}

func TestTheProgramWritesOnlyReportsAndTheCA(t *testing.T) {
	t.Parallel()
	self := thief(t)
	owner := metav1.OwnerReference{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.KindClusterExtension, Name: "x", UID: "x"}
	config := func(namespace, name string, edits ...func(*corev1.ConfigMap)) error {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, edit := range edits {
			edit(obj)
		}
		return self.Create(t.Context(), obj)
	}
	owned := func(by ...metav1.OwnerReference) func(*corev1.ConfigMap) {
		return func(obj *corev1.ConfigMap) { obj.OwnerReferences = by }
	}
	containing := func(key string) func(*corev1.ConfigMap) {
		return func(obj *corev1.ConfigMap) { obj.Data = map[string]string{key: "x"} }
	}
	const report = "remit-report-clusterextension-x"
	require.NoError(t, config(cluster.Home, report, owned(owner), containing("enrollment.yaml")))
	require.True(t, apierrors.IsForbidden(config("default", report, owned(owner), containing("report.yaml"))), "in another namespace")
	plan, other := owner, owner
	plan.Kind, plan.APIVersion, other.Name = "InstallPlan", "operators.coreos.com/v1alpha1", "y"
	for what, err := range map[string]error{
		"another name":         config(cluster.Home, "other", owned(owner)),
		"no owner":             config(cluster.Home, report),
		"two owners":           config(cluster.Home, report, owned(owner, other)),
		"the report of a plan": config(cluster.Home, "remit-report-x", owned(plan)),
		"another extension":    config(cluster.Home, report, owned(other)),
		"another key":          config(cluster.Home, report, owned(owner), containing("x")),
		"a label": config(cluster.Home, report, owned(owner), func(obj *corev1.ConfigMap) {
			obj.Labels = map[string]string{"a": "b"}
		}),
	} {
		require.ErrorContains(t, err, "remit-extension may", what)
	}

	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Home, Name: names.ConfigMapCatalogContentCA}}
	patch := func(text string) error {
		return self.Patch(t.Context(), ca.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	trusting(t) // waits for the CA
	require.NoError(t, patch(`{"data":{"ca.crt":"x"}}`))
	require.ErrorContains(t, patch(`{"data":{"report.yaml":"x"}}`), "remit-extension may write only the keys")
	require.ErrorContains(t, patch(`{"metadata":{"labels":{"a":"b"}}}`), "remit-extension may set only the data")
}

func TestTheProgramWritesOnlyItsOwnEvents(t *testing.T) {
	t.Parallel()
	self := thief(t)
	event := func(namespace string, about corev1.ObjectReference, by string) error {
		return self.Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "x-"}, EventTime: metav1.NowMicro(), Regarding: about,
			ReportingController: by, ReportingInstance: "x", Action: "Test", Reason: "Test", Type: "Normal",
		})
	}
	catalog := corev1.ObjectReference{APIVersion: olmv1.GroupVersion.String(), Kind: "ClusterCatalog", Name: "x"}
	lease := corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: cluster.Home, Name: names.ServiceAccountExtension}
	require.NoError(t, event("default", catalog, names.UserAgentExtension))
	require.NoError(t, event(cluster.Home, lease, names.UserAgentExtension))
	const denied = "remit-extension may write only its own Events"
	require.ErrorContains(t, event("default", catalog, names.UserAgentOLM), denied)
	catalog.Namespace = cluster.Home
	require.ErrorContains(t, event(cluster.Home, catalog, names.UserAgentExtension), denied)
	lease.Name = names.ServiceAccountOLM
	require.ErrorContains(t, event(cluster.Home, lease, names.UserAgentExtension), denied)
	pod := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "x"}
	require.ErrorContains(t, event("default", pod, names.UserAgentExtension), denied)
}
