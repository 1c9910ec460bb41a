package installplan

import (
	"slices"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// withWebhooks returns the step of a ClusterServiceVersion with webhooks.
func withWebhooks(t *testing.T, all ...operatorsv1alpha1.WebhookDescription) step.Step {
	t.Helper()
	csv := &operatorsv1alpha1.ClusterServiceVersion{Spec: operatorsv1alpha1.ClusterServiceVersionSpec{WebhookDefinitions: all}}
	csv.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(csv)
	require.NoError(t, err)
	return step.Step{Object: &unstructured.Unstructured{Object: obj}, Owner: ownerutil.Owner{CSV: "a.v1"}}
}

// Users are told about webhooks with automatic approval, too (the proposal for webhooks, "Risks and Mitigations").
func TestAnnouncesWebhooks(t *testing.T) {
	rule := func(operation, group, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationType(operation)},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, Resources: []string{resource}}}
	}
	mutating := operatorsv1alpha1.WebhookDescription{Type: operatorsv1alpha1.MutatingAdmissionWebhook, GenerateName: "m.example.com",
		Rules: []admissionregistrationv1.RuleWithOperations{rule("CREATE", "apps", "deployments"), rule("UPDATE", "", "pods")}}
	hostile := operatorsv1alpha1.WebhookDescription{Type: operatorsv1alpha1.ValidatingAdmissionWebhook, GenerateName: "v\n---\nkind: ClusterRoleBinding",
		Rules: []admissionregistrationv1.RuleWithOperations{rule("*\n", "\n---", "\n#")}}
	conversion := operatorsv1alpha1.WebhookDescription{Type: operatorsv1alpha1.ConversionWebhook, GenerateName: "c", ConversionCRDs: []string{"things.example.com"}}
	for _, row := range []struct {
		name    string
		targets []string
		hooks   []operatorsv1alpha1.WebhookDescription
		want    string
	}{
		{"none", []string{"ns"}, nil, ""},
		{"mutating", []string{"t1", "t2"}, []operatorsv1alpha1.WebhookDescription{mutating}, `the plan contains 1 webhook(s): mutating webhook "m.example.com" of "a.v1" intercepts ` +
			`"CREATE" of "deployments" (API groups "apps"), and "UPDATE" of "pods" (API groups "") in namespaces "t1", "t2"`},
		{"hostile names", []string{rbac.ClusterScope}, []operatorsv1alpha1.WebhookDescription{hostile}, `the plan contains 1 webhook(s): validating webhook ` +
			`"v\n---\nkind: ClusterRoleBinding" of "a.v1" intercepts "*\n" of "\n#" (API groups "\n---") in all namespaces`},
		{"conversion", []string{"ns"}, []operatorsv1alpha1.WebhookDescription{conversion}, `the plan contains 1 webhook(s): conversion webhook "c" of "a.v1" converts all objects of "things.example.com"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, recorder, _ := newRun(operatorsv1alpha1.InstallPlanPhaseInstalling)
			s.targets, s.steps = row.targets, []step.Step{withWebhooks(t, row.hooks...)}
			for range 2 {
				require.NoError(t, s.announceWebhooks())
			}
			require.Equal(t, row.want, s.plan.Status.GetCondition(typeWebhooksIncluded).Message)
			if row.want == "" {
				require.Empty(t, recorder.Events)
				return
			}
			require.Equal(t, corev1.ConditionTrue, s.plan.Status.GetCondition(typeWebhooksIncluded).Status)
			require.Equal(t, "Normal WebhooksIncluded "+row.want, <-recorder.Events)
			require.Empty(t, recorder.Events, "the event is sent once")
		})
	}
}

func TestLimitsWhatIsShownAboutWebhooks(t *testing.T) {
	s, _, _ := newRun(operatorsv1alpha1.InstallPlanPhaseInstalling)
	s.targets = slices.Repeat([]string{"t"}, 1000)
	d := operatorsv1alpha1.WebhookDescription{Type: operatorsv1alpha1.MutatingAdmissionWebhook, GenerateName: strings.Repeat("x", 200),
		Rules: make([]admissionregistrationv1.RuleWithOperations, 1000)}
	all := make([]operatorsv1alpha1.WebhookDescription, 500)
	for i := range all {
		all[i] = d
	}
	s.steps = []step.Step{withWebhooks(t, all...)}
	require.NoError(t, s.announceWebhooks())
	message := s.plan.Status.GetCondition(typeWebhooksIncluded).Message
	require.Less(t, len(message), 2*maxShownWebhooks)
	require.Contains(t, message, "the plan contains 500 webhook(s)")
	require.Contains(t, message, "990 more rules in namespaces \"t\"")
	require.Contains(t, message, "\"t\", 990 more")
	require.Regexp(t, `and \d+ more$`, message)

	t.Log("a webhook with long names does not hide another one")
	long := d
	long.Rules = slices.Repeat([]admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{Resources: slices.Repeat([]string{strings.Repeat("y", 1<<16)}, 20)}}}, 20)
	d.GenerateName = "second"
	s.steps = []step.Step{withWebhooks(t, long, d)}
	require.NoError(t, s.announceWebhooks())
	require.Contains(t, s.plan.Status.GetCondition(typeWebhooksIncluded).Message, `"second"`)
}

func TestAPlanAnnouncesItsWebhooksBeforeItIsApproved(t *testing.T) {
	t.Parallel()
	const webhooks = `  webhookdefinitions:
  - {type: MutatingAdmissionWebhook, generateName: m.example.com, deploymentName: demo, admissionReviewVersions: [v1], sideEffects: None,
     rules: [{operations: [CREATE], apiGroups: [example.com], apiVersions: [v1], resources: [things]}]}
`
	withHook := bundled(strings.Replace(demoCSV, "  version: 1.0.0\n", "  version: 1.0.0\n"+webhooks, 1), demoCRD, demoConfigMap)
	for name, approval := range map[string]change{"manual": manual(false), "automatic": func(*world) {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withHook, approval)
			out := w.reconcile()
			w.Get(w.plan)
			const text = `the plan contains 1 webhook(s): mutating webhook "m.example.com" of "demo.v1.0.0" intercepts "CREATE" of "things" (API groups "example.com") in namespaces "ns"`
			require.Equal(t, text, w.plan.Status.GetCondition(typeWebhooksIncluded).Message)
			require.Equal(t, "event: Normal WebhooksIncluded on InstallPlan ns/install-#: "+text, out.writes[0], "before the first write")
		})
	}
}
