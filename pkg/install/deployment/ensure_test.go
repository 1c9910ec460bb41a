package deployment_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/test/env/controlplane"
	"github.com/remit-olm/remit/test/env/proofs"
)

// A field that another client has changed must not keep the other fields from being restored.
func TestRestoresWhatWasRemovedAndKeepsEdits(t *testing.T) {
	c, err := client.New(controlplane.Shared(t).Config(), client.Options{Scheme: proofs.Scheme()})
	require.NoError(t, err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ensure-"}}
	require.NoError(t, c.Create(t.Context(), ns))
	// The garbage collector deletes what has no existing owner, once another test has created the kind ClusterServiceVersion.
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "owner"}}
	require.NoError(t, c.Create(t.Context(), existing))
	owner := ownerutil.Owner{Lineage: ownerutil.Lineage{Package: "p", Namespace: ns.Name}, CSV: "p.v1", UID: existing.UID, Proofs: proofs.Keys()}
	labels := map[string]string{"app": "op"}
	want := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "op", Labels: owner.Labels(), OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: existing.Name, UID: existing.UID}}},
	}
	want.Labels["olm.deployment-spec-hash"], want.Labels["release"] = "h", "one"
	want.Annotations = map[string]string{"note": "one", "other": "one"}
	want.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	want.Spec.Template.Labels = labels
	want.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "one", LivenessProbe: &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}},
	}}}
	installer := deployment.Installer{Account: c, Facts: c}
	var edits []string
	ensure := func(result apply.Result) *appsv1.Deployment {
		t.Helper()
		var got deployment.Ensured
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) { // the cluster concurrently changes the status
			got, err = installer.Ensure(t.Context(), owner, want)
			return err
		}))
		require.Equal(t, result, got.Result)
		edits = got.Edits
		live := &appsv1.Deployment{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(want), live))
		require.Equal(t, live.Generation, got.Generation)
		return live
	}
	edit := func(change func(d *appsv1.Deployment)) {
		before := &appsv1.Deployment{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(want), before))
		after := before.DeepCopy()
		change(after)
		require.NoError(t, c.Patch(t.Context(), after, client.MergeFrom(before), client.FieldOwner("editor")))
	}
	ensure(apply.Created)
	edit(func(d *appsv1.Deployment) { delete(d.Labels, "release") })
	require.Equal(t, "one", ensure(apply.Updated).Labels["release"])
	edit(func(d *appsv1.Deployment) { d.Labels["release"] = "two" })
	require.Equal(t, "two", ensure(apply.Unchanged).Labels["release"])
	require.Equal(t, []string{`metadata.labels.release (by "editor")`}, edits)
	edit(func(d *appsv1.Deployment) { delete(d.Annotations, "note") })
	require.Equal(t, "one", ensure(apply.Updated).Annotations["note"])
	edit(func(d *appsv1.Deployment) {
		delete(d.Labels, "release")
		d.Spec.Template.Spec.Containers[0].Image, d.Spec.Template.Spec.Containers[0].LivenessProbe = "two", nil
	})
	live := ensure(apply.Updated)
	require.Equal(t, "one", live.Labels["release"])
	require.Equal(t, "two", live.Spec.Template.Spec.Containers[0].Image)
	require.NotNil(t, live.Spec.Template.Spec.Containers[0].LivenessProbe)
	ensure(apply.Unchanged)
	done, err := installer.Ensure(t.Context(), owner, want)
	require.NoError(t, err)
	require.Equal(t, []string{`spec.template.spec.containers[{"name":"manager"}].image (by "editor")`}, done.Edits)

	t.Log("labels and annotations with another value are edits, too")
	edit(func(d *appsv1.Deployment) {
		d.Labels["release"], d.Annotations["note"] = "two", "two"
		delete(d.Annotations, "other")
	})
	live = ensure(apply.Updated)
	require.Equal(t, "two", live.Labels["release"])
	require.Equal(t, "two", live.Annotations["note"])
	require.Equal(t, "one", live.Annotations["other"])
	ensure(apply.Unchanged)
	done, err = installer.Ensure(t.Context(), owner, want)
	require.NoError(t, err)
	require.Equal(t, []string{
		`metadata.annotations.note (by "editor")`, `metadata.labels.release (by "editor")`, `spec.template.spec.containers[{"name":"manager"}].image (by "editor")`,
	}, done.Edits)
}
