package installplan

import (
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
)

// Limits for what is shown about webhooks: maxShownWebhooks and maxShownWebhook are the number of bytes for all of them and for
// each one, so that one cannot hide the others. maxShownRules bounds its rules, and maxShownNames each list of names.
const maxShownWebhooks, maxShownWebhook, maxShownRules, maxShownNames = 8 << 10, 1 << 10, 10, 10

// maxName is the number of bytes of the longest name that the API accepts.
const maxName = 253

// announceWebhooks reports the webhooks of the plan's bundles in a condition and an event, because webhooks intercept the
// requests of all users of the namespaces in which they apply. The plan is not delayed; users who want to decide set the
// approval to Manual.
func (s *run) announceWebhooks() error {
	var all []string
	for _, st := range s.steps {
		if !st.IsCSV() {
			continue
		}
		csv := &operatorsv1alpha1.ClusterServiceVersion{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(st.Object.Object, csv); err != nil {
			return fmt.Errorf("ClusterServiceVersion %q: %w", st.Owner.CSV, err)
		}
		for i := range csv.Spec.WebhookDefinitions {
			all = append(all, status.Cut(s.describeWebhook(st, &csv.Spec.WebhookDefinitions[i]), maxShownWebhook))
		}
	}
	if len(all) == 0 {
		return nil
	}
	was := s.plan.Status.GetCondition(typeWebhooksIncluded)
	text := message.Sprintf("the plan contains %d webhook(s): %s", len(all), status.Lines(all, maxShownWebhooks))
	s.setCondition(typeWebhooksIncluded, corev1.ConditionTrue, names.ReasonWebhooksDeclared, text)
	if was.Message != status.Text(text) {
		s.reconciler.Recorder.Eventf(s.plan, nil, corev1.EventTypeNormal, names.ConditionWebhooksIncluded, "Install", "%s", status.Note(text))
	}
	return nil
}

// describeWebhook returns what a webhook intercepts and where, in one line. All strings of the bundle are quoted.
func (s *run) describeWebhook(st step.Step, d *operatorsv1alpha1.WebhookDescription) string {
	if d.Type == operatorsv1alpha1.ConversionWebhook {
		return fmt.Sprintf("conversion webhook %q of %q converts all objects of %s", status.Cut(d.GenerateName, maxName), st.Owner.CSV, quoted(d.ConversionCRDs))
	}
	var rules []string
	for _, r := range d.Rules[:min(len(d.Rules), maxShownRules)] {
		rules = append(rules, describeRule(r))
	}
	if more := len(d.Rules) - len(rules); more > 0 {
		rules = append(rules, fmt.Sprintf("%d more rules", more))
	}
	return fmt.Sprintf("%s %q of %q intercepts %s in %s", webhookType(d.Type), status.Cut(d.GenerateName, maxName), st.Owner.CSV, strings.Join(rules, ", and "), s.where())
}

func webhookType(t operatorsv1alpha1.WebhookAdmissionType) string {
	switch t {
	case operatorsv1alpha1.MutatingAdmissionWebhook:
		return "mutating webhook"
	case operatorsv1alpha1.ValidatingAdmissionWebhook:
		return "validating webhook"
	}
	return fmt.Sprintf("webhook of the type %q", status.Cut(string(t), maxName))
}

func describeRule(r admissionregistrationv1.RuleWithOperations) string {
	operations := make([]string, len(r.Operations))
	for i, o := range r.Operations {
		operations[i] = string(o)
	}
	return fmt.Sprintf("%s of %s (API groups %s)", quoted(operations), quoted(r.Resources), quoted(r.APIGroups))
}

// where returns the namespaces of the OperatorGroup, in which admission webhooks apply.
func (s *run) where() string {
	if slices.Contains(s.targets, rbac.ClusterScope) {
		return "all namespaces"
	}
	return "namespaces " + quoted(s.targets)
}

// quoted returns a list of at most maxShownNames quoted strings.
func quoted(all []string) string {
	var out []string
	for _, one := range all[:min(len(all), maxShownNames)] {
		out = append(out, fmt.Sprintf("%q", status.Cut(one, maxName)))
	}
	if more := len(all) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}
