package csv

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/remit-olm/remit/test/env/recorded"
)

// probing adds a probe to the demo, and installs it.
func probing(w *world) {
	spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		s.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].LivenessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}},
		}
	})(w)
	installed(w)
}

// changed changes the demo's Deployment as another client would, and the Deployment controller then observes the change.
func changed(edit func(d *appsv1.Deployment)) change {
	return func(w *world) {
		recorded.Edit(w.Server, deploymentOf("demo"), func(d *appsv1.Deployment) {
			d.Generation++
			edit(d)
		})
		available("demo")(w)
		w.Requests()
		w.Writes()
	}
}

func unprobed(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].LivenessProbe = nil }

// isProbed reports whether the demo's Deployment has its probe.
func (w *world) isProbed() bool {
	d := deploymentOf("demo")
	require.True(w.t, w.Has(d))
	return d.Spec.Template.Spec.Containers[0].LivenessProbe != nil
}

func TestRestoresRemovedFieldsOfDeployments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probing(w)
	changed(unprobed)(w)
	got := w.settle()
	require.Equal(t, runs("", completed, deploys).writes, got.writes)
	require.True(t, w.isProbed())
	available("demo")(w)
	require.Equal(t, completed, w.settle().message)
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase)

	w.Requests()
	w.settle()
	require.Empty(t, w.Requests(), "an unchanged Deployment is not read again")
}

// A change to labels does not change the generation of a Deployment.
func TestNoticesOtherValuesOfLabelsOfDeployments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec(func(s *operatorsv1alpha1.ClusterServiceVersionSpec) {
		s.InstallStrategy.StrategySpec.DeploymentSpecs[0].Label = map[string]string{"release": "one"}
	})(w)
	installed(w)
	relabeled := func(value string) {
		recorded.Edit(w.Server, deploymentOf("demo"), func(d *appsv1.Deployment) { d.Labels["release"] = value })
		w.Writes()
	}
	label := func() string {
		d := deploymentOf("demo")
		w.Get(d)
		return d.Labels["release"]
	}
	relabeled("two")
	require.Equal(t, []string{deploys}, w.settle().writes)
	require.Equal(t, "one", label())
	require.Equal(t, phaseSucceeded, w.csv.Status.Phase)

	relabeled("three")
	got := w.settle()
	require.Empty(t, got.writes, "the pause also limits how often labels are restored")
	require.NotZero(t, got.after)
	passing(got.after)(w)
	w.settle()
	require.Equal(t, "one", label())
	passing(time.Hour)(w)
	w.settle()

	w.Requests()
	w.settle()
	require.Empty(t, w.Requests(), "an unchanged Deployment is not read again")
}

// Without the pause, two clients would overwrite each other's changes as fast as they can.
func TestPausesWhileFieldsAreRemovedRepeatedly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probing(w)
	for range 3 {
		changed(unprobed)(w)
		w.settle()
		require.True(t, w.isProbed())
		changed(unprobed)(w)
		got := w.settle()
		require.Empty(t, got.writes)
		require.NotZero(t, got.after)
		require.False(t, w.isProbed())
		passing(got.after)(w)
		w.settle()
		require.True(t, w.isProbed())
		passing(got.after * 2)(w)
	}
	changed(unprobed)(w)
	w.settle()
	changed(unprobed)(w)
	got := w.settle()
	require.Greater(t, got.after, 10*time.Second)
	require.Equal(t, completed+"; other clients repeatedly change Deployment t1/demo, whose fields are restored at increasing intervals", got.message)
}

// Images have notes of their own, and the number of replicas is often changed on purpose.
func TestReportsChangedFieldsOfDeployments(t *testing.T) {
	t.Parallel()
	s := &scope{}
	s.noteDrift(deploymentOf("demo"), compared{edits: []string{
		`spec.replicas (by "editor")`, `spec.revisionHistoryLimit (by "editor")`, `spec.template.spec.containers[{"name":"manager"}].image (by "editor")`,
	}})
	require.Equal(t, []string{`other clients changed these fields of Deployment t1/demo, which are kept: spec.revisionHistoryLimit (by "editor")`}, s.facts.Notes)
}

// What the account may not write is not restored, and a refusal does not stop the operator.
func TestReportsFieldsThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	probing(w)
	changed(unprobed)(w)
	w.Refuse(deploys, quota)
	got := w.settle()
	require.Equal(t, phaseSucceeded, got.phase)
	require.Contains(t, got.message, "fields that other clients removed from Deployment t1/demo cannot be restored: "+quotaMessage)
	require.NotZero(t, got.after)
	require.Equal(t, []string{refusedWrite}, got.writes)

	w.Refuse(deploys, nil)
	passing(got.after)(w)
	w.settle()
	require.True(t, w.isProbed())
	changed(unprobed)(w)
	may(withoutDeployments()...)(w)
	passing(time.Hour)(w)
	require.Empty(t, w.settle().writes)
	require.False(t, w.isProbed())
}
