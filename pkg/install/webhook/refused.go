package webhook

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/remit-olm/remit/pkg/lib/group"
)

// RefusedError says that no webhook of a bounded group may intercept something, whatever the account holds:
// the API server lets it say more when somebody else writes it (ADR 0021).
type RefusedError struct {
	// Webhook is the name of its description.
	Webhook         string
	Group, Resource string
	Why             string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("webhook %q may not intercept %q in API group %q: %s; leave the rule out, or install by the installation's default account",
		e.Webhook, e.Resource, e.Group, e.Why)
}

// Reasons for which something is not intercepted.
const (
	whyGrants    = "the API server asks whoever writes it, and not the operator, for what it grants"
	whyIdentity  = "it shows or decides who somebody is and what they may do"
	whyPlatform  = "it decides how the API server serves the whole cluster"
	whyOwn       = "it decides what is installed, and for whom"
	whyToken     = "whoever asks for a token gets it by rights of their own"
	whyEnters    = "whoever connects does so by rights of their own"
	whyContainer = "whoever puts a container into a Pod does so by rights of their own"
	whyScheduled = "the scheduler alone says where Pods run"
	whyCluster   = "a mutating webhook would write for administrators, who alone write it"
)

// kept is something of Kubernetes or this API that a bounded group's webhooks do not intercept.
type kept struct {
	// in says which groups it is in.
	in func(group string) bool
	// resources are "<resource>" or "<resource>/<subresource>"; none means all.
	resources []string
	// operations are those that are kept; none means all.
	operations []admissionregistrationv1.OperationType
	// mutating says that it is kept from mutating webhooks alone.
	mutating bool
	why      string
}

func groups(names ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return group.Same(n, name) })
	}
}

// table is what is kept from webhooks, one line for each reason: what an object confers by the rights of
// who writes it, and what guards the bound itself. OpenShift has kinds of its own for the former.
func table() []kept {
	core, connect := groups(""), []admissionregistrationv1.OperationType{admissionregistrationv1.Connect}
	return []kept{
		{in: groups("rbac.authorization.k8s.io", "authorization.openshift.io", "security.openshift.io"), why: whyGrants},
		{in: groups("certificates.k8s.io"), why: whyGrants},
		{in: groups("authentication.k8s.io", "authorization.k8s.io", "oauth.openshift.io", "user.openshift.io"), why: whyIdentity},
		{in: groups("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "internal.apiserver.k8s.io"), why: whyPlatform},
		{in: group.Own, why: whyOwn},
		{in: core, resources: []string{"serviceaccounts/token"}, why: whyToken},
		{in: core, resources: []string{"pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"}, operations: connect, why: whyEnters},
		{in: core, resources: []string{"pods/ephemeralcontainers"}, operations: writes(), why: whyContainer},
		{in: core, resources: []string{"bindings", "pods/binding"}, operations: writes()[:1], mutating: true, why: whyScheduled},
	}
}

// writes are the operations by which a mutating webhook changes what is stored.
func writes() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// Refused says which of the CSV's admission webhooks no bounded group may have; nil where none. Each error is a
// *RefusedError.
func Refused(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	var errs []error
	all := table()
	for i := range csv.Spec.WebhookDefinitions {
		if err := refused(&csv.Spec.WebhookDefinitions[i], all); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func refused(d *operatorsv1alpha1.WebhookDescription, all []kept) error {
	if d.Type == operatorsv1alpha1.ConversionWebhook {
		return nil
	}
	mutates := d.Type == operatorsv1alpha1.MutatingAdmissionWebhook
	all = slices.DeleteFunc(slices.Clone(all), func(k kept) bool { return k.mutating && !mutates })
	for _, rule := range d.Rules {
		for _, name := range rule.APIGroups {
			for _, resource := range rule.Resources {
				what, why := keptFrom(rule, name, resource, all)
				if why == "" && mutates && writtenByAdministrators(rule, name, resource) {
					what, why = resource, whyCluster
				}
				if why != "" {
					return &RefusedError{Webhook: d.GenerateName, Group: name, Resource: what, Why: why}
				}
			}
		}
	}
	return nil
}

// keptFrom says why a resource of a rule is kept from webhooks, and which; "" where it is not.
func keptFrom(rule admissionregistrationv1.RuleWithOperations, name, resource string, all []kept) (what, why string) {
	for _, k := range all {
		if !k.in(name) && name != "*" || !intersects(rule.Operations, k.operations) {
			continue
		}
		if len(k.resources) == 0 {
			return resource, k.why
		}
		for _, r := range k.resources {
			if covers(resource, r) {
				return r, k.why
			}
		}
	}
	return "", ""
}

// writtenByAdministrators says whether Kubernetes' own objects of the whole cluster are written. A wildcard does not
// reach them ([bounded]), unless it asks for nothing else.
func writtenByAdministrators(rule admissionregistrationv1.RuleWithOperations, name, resource string) bool {
	if !intersects(rule.Operations, writes()) {
		return false
	}
	base, _, _ := strings.Cut(resource, "/")
	if base == "*" {
		return len(clusterScoped[strings.ToLower(name)]) > 0 && rule.Scope != nil && *rule.Scope == admissionregistrationv1.ClusterScope
	}
	return Builtin(strings.ToLower(name), strings.ToLower(base)) == Cluster
}

// covers says whether a resource of an admission rule reaches another. "*" is every resource and no subresource,
// "x/*" is x and all below it, "*/*" everything.
func covers(pattern, target string) bool {
	base, sub, _ := strings.Cut(strings.ToLower(pattern), "/")
	toBase, toSub, _ := strings.Cut(target, "/")
	return (base == "*" || base == toBase) && (sub == "*" || sub == toSub)
}

// intersects says whether operations of a rule are among some; none of those means all.
func intersects(operations, some []admissionregistrationv1.OperationType) bool {
	return len(some) == 0 || slices.Contains(operations, admissionregistrationv1.OperationAll) ||
		slices.ContainsFunc(operations, func(o admissionregistrationv1.OperationType) bool { return slices.Contains(some, o) })
}

// runs are the resources that hold what runs as a ServiceAccount of their namespace, or may become its token.
var runs = map[string][]string{
	"":                   {"pods", "podtemplates", "replicationcontrollers", "secrets"},
	"apps":               {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
	"batch":              {"cronjobs", "jobs"},
	"extensions":         {"daemonsets", "deployments", "replicasets"},
	"apps.openshift.io":  {"deploymentconfigs"},
	"build.openshift.io": {"buildconfigs", "builds"},
}

// runsAsAnybody says whether a webhook may make something run as any ServiceAccount of its namespace: the API server
// lets who writes a Pod, or a template of one, name whichever it likes, and asks nobody whether they may.
func runsAsAnybody(d *operatorsv1alpha1.WebhookDescription) bool {
	if d.Type != operatorsv1alpha1.MutatingAdmissionWebhook {
		return false
	}
	return slices.ContainsFunc(d.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		return intersects(rule.Operations, writes()) && slices.ContainsFunc(rule.APIGroups, func(name string) bool {
			return slices.ContainsFunc(runs[strings.ToLower(name)], func(target string) bool {
				return slices.ContainsFunc(rule.Resources, func(r string) bool { return covers(r, target) })
			})
		})
	})
}
