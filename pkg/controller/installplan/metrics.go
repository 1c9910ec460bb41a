package installplan

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/controller/kit"
)

func newWarnings() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "installplan_warnings_total", Help: "Number of warnings from the API server about the objects of InstallPlans."})
}

// RegisterMetrics registers OLM's metrics for InstallPlans.
func (r *Reconciler) RegisterMetrics(to prometheus.Registerer) error {
	count := prometheus.NewDesc("install_plan_count", "Number of InstallPlans.", nil, nil)
	return kit.RegisterMetrics(to, r.warnings, kit.Inventory[*operatorsv1alpha1.InstallPlan]{
		Cached: r.Client, List: func() client.ObjectList { return &operatorsv1alpha1.InstallPlanList{} }, Descs: []*prometheus.Desc{count},
		Metrics: func(plans []*operatorsv1alpha1.InstallPlan) []prometheus.Metric {
			return []prometheus.Metric{kit.Gauge(count, len(plans))}
		},
	})
}
