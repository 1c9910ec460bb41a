package escape

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/env/audit"
	"github.com/remit-olm/remit/test/escape/forge"
)

const forgedBinding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"escape-forged"},
"subjects":[{"kind":"ServiceAccount","namespace":"t1","name":"operator"}],
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`

// forged returns a row in which a tenant edits the status of a plan that waits for approval and then approves the plan.
func forged(number, title string, edit func(st *operatorsv1alpha1.InstallPlanStatus), after func(s *scene)) row {
	return row{number: number, title: title, holds: p0(), play: func(s *scene) {
		ip := s.waiting()
		want := ip.DeepCopy().Status.Plan
		mallory := s.mallory()
		before := ip.DeepCopy()
		edit(&ip.Status)
		require.NoError(s.T, mallory.Status().Patch(s.T.Context(), ip, client.MergeFrom(before)))
		s.approve(mallory, before)
		done := s.Complete()
		require.Len(s.T, done.Status.Plan, len(want))
		for i := range want {
			require.Equal(s.T, want[i].Resource, done.Status.Plan[i].Resource)
		}
		s.Succeeded(probeCSV)
		if after != nil {
			after(s)
		}
	}}
}

func (s *scene) approve(c client.Client, ip *operatorsv1alpha1.InstallPlan) {
	s.T.Helper()
	before := ip.DeepCopy()
	after := ip.DeepCopy()
	after.Spec.Approved = true
	require.NoError(s.T, c.Patch(s.T.Context(), after, client.MergeFrom(before)))
}

func installPlans() []row {
	first := func(edit func(r *operatorsv1alpha1.StepResource)) func(st *operatorsv1alpha1.InstallPlanStatus) {
		return func(st *operatorsv1alpha1.InstallPlanStatus) { edit(&st.Plan[0].Resource) }
	}
	marked := func(step operatorsv1alpha1.StepStatus) func(st *operatorsv1alpha1.InstallPlanStatus) {
		return func(st *operatorsv1alpha1.InstallPlanStatus) {
			for _, s := range st.Plan {
				s.Status = step
			}
		}
	}
	rows := []row{
		forged("67", "a step of one kind with a manifest of another kind", first(func(r *operatorsv1alpha1.StepResource) {
			r.Group, r.Kind, r.Name, r.Manifest = "monitoring.coreos.com", "PrometheusRule", "rule", forgedBinding
		}), nil),
		forged("68", "a manifest that refers to a ConfigMap of kube-system", first(func(r *operatorsv1alpha1.StepResource) {
			r.Manifest = `{"kind":"ConfigMap","name":"y","namespace":"kube-system","catalogSourceName":"catalog"}`
		}), func(s *scene) {
			require.Empty(s.T, s.requests(func(e audit.Event) bool {
				return e.Object != nil && e.Object.Namespace == "kube-system" && e.Object.Name == "y" && (cluster.ControllerIdentities().Is(e) || strings.HasSuffix(e.User.Username, ":"+accountName))
			}))
		}),
		forged("70", "steps that are marked as present", marked(operatorsv1alpha1.StepStatusPresent), nil),
		forged("70a", "steps that are marked as created", marked(operatorsv1alpha1.StepStatusCreated), nil),
		forged("70b", "an additional step", func(st *operatorsv1alpha1.InstallPlanStatus) {
			st.Plan = append(st.Plan, &operatorsv1alpha1.Step{Resolving: probeCSV, Status: operatorsv1alpha1.StepStatusUnknown,
				Resource: operatorsv1alpha1.StepResource{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding", Name: "escape-forged", Manifest: forgedBinding}})
		}, nil),
		forged("70c", "a different account in the status", func(st *operatorsv1alpha1.InstallPlanStatus) {
			st.AttenuatedServiceAccountRef = &corev1.ObjectReference{Kind: "ServiceAccount", Namespace: "kube-system", Name: "default"}
		}, nil),
		{number: "72d", title: "a plan created by a user who may not act as the account", holds: p0(), play: func(s *scene) {
			ip := s.waiting()
			author := s.authorWho(rule("operators.coreos.com", "installplans", "get", "create"))
			mine := &operatorsv1alpha1.InstallPlan{ObjectMeta: s.Meta("mine"), Spec: ip.Spec}
			mine.Labels, mine.Annotations, mine.OwnerReferences = ip.Labels, ip.Annotations, ip.OwnerReferences
			mine.Spec.Approval, mine.Spec.Approved = operatorsv1alpha1.ApprovalAutomatic, true
			s.denied(author.Create(s.T.Context(), mine))
			s.noDeployments()
		}},
		{number: "72", title: "a plan with the pins of another bundle", holds: p0(), play: func(s *scene) {
			ip := s.waiting()
			mallory := s.mallory()
			before := ip.DeepCopy()
			ip.Annotations[names.AnnotationPlan] = strings.ReplaceAll(ip.Annotations[names.AnnotationPlan], probeCSV, "other.v1")
			ip.Spec.Approved = true
			require.NoError(s.T, mallory.Patch(s.T.Context(), ip, client.MergeFrom(before)))
			s.planSays("the InstallPlan was edited")
			s.nothingWritten()
		}},
		{number: "72a", title: "a plan that a tenant creates from a catalog that the tenant may not use", holds: p0(), play: func(s *scene) {
			s.group(s.Namespace)
			pins := []resolver.Pin{{Subscription: "x", SubscriptionUID: "y", CatalogNamespace: "healthy", Catalog: "catalog",
				Package: "healthy-1", Channel: forge.Channel, Bundle: "healthy-1.v1.0.0", Digest: "sha256:0"}}
			plan := resolver.Plan{Namespace: s.Namespace, Pins: pins}
			name := plan.Name()
			text := plan.Encode()
			ip := &operatorsv1alpha1.InstallPlan{ObjectMeta: s.Meta(name), Spec: operatorsv1alpha1.InstallPlanSpec{
				Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true, ClusterServiceVersionNames: []string{"healthy-1.v1.0.0"}}}
			ip.Annotations = map[string]string{names.AnnotationPlan: text}
			require.NoError(s.T, s.mallory().Create(s.T.Context(), ip))
			s.planSays("is not visible from namespace")
			s.nothingWritten()
		}},
		{number: "73", title: "a plan that was replaced, approved and restarted", holds: p0(), play: func(s *scene) {
			old := s.waiting()
			s.republish(bundleOf(csv().Set("Probe, mended", "spec", "displayName")))
			s.Eventually(func(c *assert.CollectT) {
				plans := &operatorsv1alpha1.InstallPlanList{}
				assert.NoError(c, cluster.Client.List(s.T.Context(), plans, client.InNamespace(s.Namespace)))
				assert.Len(c, plans.Items, 2)
			})
			mallory := s.mallory()
			require.NoError(s.T, s.Get(old.Name, old))
			before := old.DeepCopy()
			old.Status.Phase = operatorsv1alpha1.InstallPlanPhaseInstalling
			require.NoError(s.T, mallory.Status().Patch(s.T.Context(), old, client.MergeFrom(before)))
			s.approve(mallory, old)
			s.Eventually(func(c *assert.CollectT) {
				ip := &operatorsv1alpha1.InstallPlan{}
				assert.NoError(c, s.Get(old.Name, ip))
				assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseFailed, ip.Status.Phase)
				assert.Contains(c, ip.Status.Message, "superseded this InstallPlan")
			})
			s.nothingWritten()
		}},
		{number: "74", title: "9,001 manifests in one bundle", holds: p0(), directory: manyManifests(9_000, 8), play: refusedDirectory("9001 manifests")},
		{number: "74c", title: "a catalog with more than 10,000 manifests in one bundle", holds: p0(), directory: manyManifests(10_000, 8), play: func(s *scene) {
			s.installDirectory()
			s.catalogSays("more than 10000 manifests")
			s.refused("its content is not available")
		}},
		{number: "74a", title: "1,001 steps", holds: p0(), directory: manyManifests(999, 8), play: refusedDirectory("steps", "1000")},
		{number: "74b", title: "manifests of 1.4 MB in total", holds: p0(), directory: manyManifests(700, 2000), play: func(s *scene) {
			s.group(s.Namespace)
			s.Catalog("catalog", image(s.number))
			s.subscribe(manual)
			s.Eventually(func(c *assert.CollectT) {
				ip := s.Plan(c)
				assert.Len(c, ip.Status.Plan, 704)
				assert.Less(c, len(statusText(c, ip)), 1<<20)
			})
		}},
		{number: "75", title: "a ConfigMap with the name of a plan's report", holds: readsCatalogs(), play: func(s *scene) {
			s.replaceReport(func(*corev1.ConfigMap) {})
		}},
		{number: "75a", title: "a ConfigMap with the name of a plan's report, owned by the plan", holds: readsCatalogs(), play: func(s *scene) {
			s.replaceReport(func(cm *corev1.ConfigMap) {
				ip := s.Plan(s.T)
				cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "operators.coreos.com/v1alpha1", Kind: "InstallPlan", Name: ip.Name, UID: ip.UID}}
			})
		}},
	}
	for i, generation := range []int{1, 2, math.MaxInt64} {
		rows = append(rows, row{number: "71" + letter(i), title: fmt.Sprintf("a tenant's own plan with generation %d", generation), holds: p0(), play: func(s *scene) {
			s.foreignPlan(generation)
		}})
	}
	return rows
}

// foreignPlan creates, as a tenant, an InstallPlan before Remit creates one, and writes a step into its status.
func (s *scene) foreignPlan(generation int) {
	s.T.Helper()
	ip := &operatorsv1alpha1.InstallPlan{ObjectMeta: s.Meta("install-forged"), Spec: operatorsv1alpha1.InstallPlanSpec{
		Approval: operatorsv1alpha1.ApprovalAutomatic, Approved: true, Generation: generation, ClusterServiceVersionNames: []string{probeCSV}}}
	s.group(s.Namespace)
	mallory := s.mallory()
	require.NoError(s.T, s.CreateAs(mallory, ip))
	ip.Status.CatalogSources = []string{}
	ip.Status.Plan = []*operatorsv1alpha1.Step{{Resolving: probeCSV, Status: operatorsv1alpha1.StepStatusUnknown,
		Resource: operatorsv1alpha1.StepResource{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding", Name: "escape-forged", Manifest: forgedBinding}}}
	require.NoError(s.T, mallory.Status().Update(s.T.Context(), ip))
	s.publish(bundleOf(csv()))
	s.subscribe()
	s.Succeeded(probeCSV)
	ref := s.Subscription(s.T).Status.InstallPlanRef
	require.NotEqual(s.T, ip.Name, ref.Name)
	s.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, s.Get(ip.Name, ip))
		assert.Equal(c, operatorsv1alpha1.InstallPlanPhaseFailed, ip.Status.Phase)
	})
}

// replaceReport replaces, as a tenant, a plan's report with another ConfigMap of the same name, and then triggers a change to
// the report. It asserts that Remit does not overwrite the ConfigMap.
func (s *scene) replaceReport(edit func(cm *corev1.ConfigMap)) {
	s.T.Helper()
	s.install(bundleOf(csv()))
	s.PermissionsMissing()
	theirs := &corev1.ConfigMap{ObjectMeta: s.Meta(s.report().Name), Data: map[string]string{"key": "theirs"}}
	edit(theirs)
	mallory := s.mallory()
	require.NoError(s.T, mallory.Delete(s.T.Context(), s.report()))
	require.NoError(s.T, mallory.Create(s.T.Context(), theirs))
	s.Grant(s.Namespace, rule("", "serviceaccounts", "get", "create", "patch"))
	s.Eventually(func(c *assert.CollectT) {
		got := s.Plan(c).Status.GetCondition(operatorsv1alpha1.InstallPlanConditionType(names.ConditionPermissionsMissing))
		assert.Contains(c, got.Message, "could not be written")
	})
	after := &corev1.ConfigMap{}
	require.NoError(s.T, s.Get(theirs.Name, after))
	require.Equal(s.T, theirs.ResourceVersion, after.ResourceVersion)
}

// republish replaces the content of the catalog.
func (s *scene) republish(bundles ...*forge.Bundle) {
	s.T.Helper()
	cm := &corev1.ConfigMap{}
	require.NoError(s.T, s.Get("content", cm))
	cm.Data["catalog.yaml"] = forge.Catalog(bundles...)
	require.NoError(s.T, cluster.Client.Update(s.T.Context(), cm))
}

// manyManifests returns a function that builds a catalog whose only bundle has count ConfigMaps of the given size in
// addition to its CSV.
func manyManifests(count, size int) func() string {
	return func() string {
		var maps []string
		for n := range count {
			text, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": fmt.Sprintf("m%d", n)}, "data": map[string]any{"x": strings.Repeat("x", size)}})
			maps = append(maps, string(text))
		}
		return forge.Catalog(bundleOf(csv(), maps...))
	}
}
