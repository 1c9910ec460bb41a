package csv

import (
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/install/hooks"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env/exposition"
)

const day = 24 * time.Hour

func TestDaysUntilExpiryAreCountedWithoutReadingTheCertificate(t *testing.T) {
	clock := testclock.NewFakePassiveClock(start.Time)
	w := newWorld(t)
	w.options.Clock = clock
	r, err := New(w.options)
	require.NoError(t, err)
	m := r.metrics
	s := &scope{csv: &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: "t1", Name: "demo.v1"}}}
	observe := func(expires time.Time) {
		s.certificates = []hooks.Certificate{{Deployment: "d", Times: cert.Times{Expires: expires}}, {Deployment: "new"}}
		m.set(s)
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, r.RegisterMetrics(registry))
	shows := func(days ...float64) {
		t.Helper()
		families, err := registry.Gather()
		require.NoError(t, err)
		var got []float64
		for _, family := range families {
			if family.GetName() != "csv_serving_certificate_days_left" {
				continue
			}
			for _, one := range family.GetMetric() {
				got = append(got, one.GetGauge().GetValue())
				require.Equal(t, "d", one.GetLabel()[0].GetValue())
			}
		}
		require.Equal(t, days, got)
	}
	shows()
	observe(start.Add(10 * day))
	shows(10)
	clock.SetTime(start.Add(3 * day))
	shows(7)
	observe(time.Time{}) // the certificate cannot be read
	shows(7)
	s.certificates = nil // no certificate was read
	m.set(s)
	shows(7)
	observe(start.Add(13 * day))
	shows(10)
	s.facts.ReplacedBy = "demo.v2"
	m.set(s)
	shows()

	s.facts.ReplacedBy = ""
	observe(start.Add(13 * day))
	s.hooks, err = hooks.New(hooks.Input{CSV: s.csv})
	require.NoError(t, err)
	m.set(s)
	shows() // the operator no longer has webhooks or APIs

	s.hooks = nil
	observe(start.Add(13 * day))
	shows(10)
	r.forget(client.ObjectKeyFromObject(s.csv))
	shows()
}

func TestReportsPhasesAsMetrics(t *testing.T) {
	csv := func(name string, version int, phase operatorsv1alpha1.ClusterServiceVersionPhase, reason operatorsv1alpha1.ConditionReason) *operatorsv1alpha1.ClusterServiceVersion {
		out := parsed(t, demo, &operatorsv1alpha1.ClusterServiceVersion{})
		out.Name, out.Spec.Version.Major = name, uint64(version)
		out.Status.Phase, out.Status.Reason = phase, reason
		return out
	}
	copied := csv("copied", 9, phaseSucceeded, "Copied")
	copied.Labels = map[string]string{names.LabelCopiedFrom: "elsewhere"}
	w := newWorld(t)
	w.Delete(w.csv)
	for _, obj := range []client.Object{csv("a.v1", 1, phaseSucceeded, operatorsv1alpha1.CSVReasonInstallSuccessful), csv("a.v2", 2, phaseFailed, reasonInstallCheckFailed), csv("a.v3", 3, "", ""), copied} {
		w.Put(obj)
	}
	require.Equal(t, []string{
		`csv_abnormal{name="a.v2",namespace="t1",phase="Failed",reason="InstallCheckFailed",version="2.0.0"} 1`,
		`csv_abnormal{name="a.v3",namespace="t1",phase="",reason="",version="3.0.0"} 1`,
		`csv_count 3`,
		`csv_succeeded{name="a.v1",namespace="t1",version="1.0.0"} 1`,
		`csv_succeeded{name="a.v2",namespace="t1",version="2.0.0"} 0`,
		`csv_succeeded{name="a.v3",namespace="t1",version="3.0.0"} 0`,
	}, exposition.Lines(t, inventory(w.options.Client)))
}

func TestCountsUpgrades(t *testing.T) {
	w := newWorld(t)
	r, err := New(w.options)
	require.NoError(t, err)
	r.transitioned(w.csv, Transition{Phase: phaseSucceeded, Reason: operatorsv1alpha1.CSVReasonInstallSuccessful})
	require.Equal(t, []string{"csv_upgrade_count 0"}, exposition.Lines(t, r.metrics.upgrades))
	r.transitioned(w.csv, Transition{Phase: phaseDeleting, Reason: reasonReplaced})
	require.Equal(t, []string{"csv_upgrade_count 1"}, exposition.Lines(t, r.metrics.upgrades))
}

func TestCollectingDoesNotBlockReconciles(t *testing.T) {
	m := newMetrics(testclock.NewFakePassiveClock(start.Time))
	key := client.ObjectKey{Namespace: "t1", Name: "demo.v1"}
	m.expires.Set(key, map[string]time.Time{"a": start.Time, "b": start.Time})
	collected := make(chan prometheus.Metric)
	go m.Collect(collected)
	<-collected
	require.Len(t, m.expires.Get(key), 2) // while Collect waits to send the other metric
	<-collected
}
