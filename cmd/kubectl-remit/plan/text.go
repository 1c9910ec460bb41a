package plan

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/install/apiservice"
	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// text writes the view as text.
func (v *view) text(out io.Writer) error {
	p, err := permissionsOf(v.steps)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, w := range p.warnings() {
		line(&b, 0, "Warning: %s", w)
	}
	v.writeHead(&b)
	writePermissions(&b, p)
	v.writeAPI(&b)
	v.writeDeployments(&b)
	v.writeOther(&b)
	v.writeMissing(&b)
	v.writeApproval(&b)
	_, err = out.Write(b.Bytes())
	return err
}

// line writes one indented line.
func line(b *bytes.Buffer, depth int, f message.Format, args ...any) {
	message.Fprintf(b, f.Indent(depth)+"\n", args...)
}

func (v *view) writeHead(b *bytes.Buffer) {
	line(b, 0, "InstallPlan %s/%s installs:", v.plan.Namespace, v.plan.Name)
	confirmed := true
	for _, o := range v.origins {
		confirmed = confirmed && o.IsConfirmed()
		line(b, 1, "%s", o.What())
		line(b, 2, "%s", o.Result())
		if o.Pin.Replaces != "" {
			line(b, 2, "replaces %s", o.Pin.Replaces)
		}
	}
	if !confirmed {
		line(b, 0, "%s Remit compares the content with that of the CatalogSources before it writes anything.", source.Unproven)
	}
	as := "the installation's default account"
	if !v.isUnbounded() {
		as = "ServiceAccount " + v.plan.Namespace + "/" + v.group.Spec.ServiceAccountName
	}
	namespaces := strings.Join(v.targets, ", ")
	if v.targets[0] == scoped.AllNamespaces {
		namespaces = "all namespaces"
	}
	line(b, 0, "Installed as %s, for the target namespaces: %s", as, namespaces)
}

func writePermissions(b *bytes.Buffer, p permissions) {
	message.Fprintf(b, "\nPermissions that the plan grants:%s", none(len(p.grantees)+len(p.unbound)))
	for _, g := range p.grantees {
		line(b, 1, "to %s", g.subject)
		g.write(b)
	}
	for _, g := range p.unbound {
		line(b, 1, "not bound by the plan: %s", g.subject)
		g.write(b)
	}
}

func (g grantee) write(b *bytes.Buffer) {
	for _, s := range g.scopes {
		line(b, 2, "%s", s.where())
		for _, text := range s.lines() {
			line(b, 3, "%s", text)
		}
	}
}

func none(n int) message.Text {
	if n == 0 {
		return " none\n"
	}
	return "\n"
}

// writeAPI writes the objects that extend the API server.
func (v *view) writeAPI(b *bytes.Buffer) {
	var list bytes.Buffer
	for _, s := range v.steps {
		if s.IsCRD() {
			scope, _, _ := unstructured.NestedString(s.Object.Object, "spec", "scope")
			line(&list, 1, "CustomResourceDefinition %s (%s; %s)", s.Object.GetName(), scope, strings.Join(versions(s.Object), ", "))
		}
	}
	for _, csv := range v.csvs {
		for i := range csv.Spec.WebhookDefinitions {
			writeWebhook(&list, &csv.Spec.WebhookDefinitions[i])
		}
		for _, api := range apiservice.Owned(csv) {
			line(&list, 1, "APIService %s, served by Deployment %s", api.Name(), api.Deployment)
		}
	}
	message.Fprintf(b, "\nCustomResourceDefinitions, webhooks and APIServices:%s", none(list.Len()))
	b.Write(list.Bytes())
}

// versions returns the versions of a CustomResourceDefinition.
func versions(crd *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var out []string
	for _, item := range list {
		version, _ := item.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); !served {
			name += " (not served)"
		}
		out = append(out, name)
	}
	return out
}

func writeWebhook(b *bytes.Buffer, d *operatorsv1alpha1.WebhookDescription) {
	if d.Type == operatorsv1alpha1.ConversionWebhook {
		line(b, 1, "%s %s of Deployment %s: converts %s", d.Type, d.GenerateName, d.DeploymentName, strings.Join(d.ConversionCRDs, ", "))
		return
	}
	policy := admissionregistrationv1.Fail
	if d.FailurePolicy != nil {
		policy = *d.FailurePolicy
	}
	line(b, 1, "%s %s of Deployment %s, failure policy %s: intercepts", d.Type, d.GenerateName, d.DeploymentName, policy)
	for _, r := range d.Rules {
		var operations []string
		for _, o := range r.Operations {
			operations = append(operations, string(o))
		}
		line(b, 2, "%s of %s (API groups %s, versions %s)", strings.Join(operations, ", "), strings.Join(r.Resources, ", "),
			quoted(r.APIGroups), strings.Join(r.APIVersions, ", "))
	}
}

// quoted quotes API groups, so that the core group, whose name is empty, is visible.
func quoted(groups []string) string {
	var out []string
	for _, g := range groups {
		out = append(out, fmt.Sprintf("%q", g))
	}
	return strings.Join(out, ", ")
}

func (v *view) writeDeployments(b *bytes.Buffer) {
	var list bytes.Buffer
	for _, csv := range v.csvs {
		for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
			pod := &d.Spec.Template.Spec
			line(&list, 1, "%s, as ServiceAccount %s", d.Name, deployment.ServiceAccountName(pod))
			writeContainers(&list, "init container", pod.InitContainers)
			writeContainers(&list, "container", pod.Containers)
		}
	}
	message.Fprintf(b, "\nDeployments, with their images:%s", none(list.Len()))
	b.Write(list.Bytes())
}

func writeContainers(b *bytes.Buffer, what string, containers []corev1.Container) {
	for i := range containers {
		line(b, 2, "%s %s: %s", what, containers[i].Name, containers[i].Image)
	}
}

func (v *view) writeOther(b *bytes.Buffer) {
	var list bytes.Buffer
	for _, s := range v.steps {
		if !bundle.IsRBAC(s.Object) && !s.IsCRD() {
			line(&list, 1, "%s", apply.Describe(s.Object))
		}
	}
	for _, part := range v.parts {
		line(&list, 1, "%s", part)
	}
	message.Fprintf(b, "\nOther objects:%s", none(list.Len()))
	b.Write(list.Bytes())
}

// writeMissing quotes the plan's status, indented, so that text in the status cannot look like another section.
func (v *view) writeMissing(b *bytes.Buffer) {
	if len(v.missing) == 0 {
		return
	}
	b.WriteString("\nMissing permissions and refused objects, according to the plan's status:\n")
	for _, text := range v.missing {
		for part := range strings.SplitSeq(text, "\n") {
			line(b, 1, "%s", part)
		}
	}
	line(b, 0, "To see everything that is missing and grant it: kubectl remit grant installplan/%s -n %s", v.plan.Name, v.plan.Namespace)
}

func (v *view) writeApproval(b *bytes.Buffer) {
	spec, phase := v.plan.Spec, v.plan.Status.Phase
	if spec.Approval != operatorsv1alpha1.ApprovalManual || spec.Approved ||
		phase == operatorsv1alpha1.InstallPlanPhaseComplete || phase == operatorsv1alpha1.InstallPlanPhaseFailed {
		return
	}
	b.WriteString("\nThe plan is waiting for approval. To approve it:\n")
	line(b, 1, "%s", preflight.ApproveCommand(client.ObjectKeyFromObject(v.plan)))
}
