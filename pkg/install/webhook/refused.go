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

// Reasons why a webhook is not allowed to intercept requests.
const (
	whyGrants    = "the API server checks the permissions of the writer, not those of the operator"
	whyIdentity  = "the resource reveals or determines who a user is and what they may do"
	whyPlatform  = "the resource configures how the API server serves the whole cluster"
	whyOwn       = "the resource determines what is installed, and for which namespaces"
	whyToken     = "a token is issued with the permissions of its requester"
	whyEnters    = "a connection uses the permissions of its requester"
	whyContainer = "adding a container to a Pod uses the permissions of its requester"
	whyScheduled = "only the scheduler decides where Pods run"
	whyCluster   = "only administrators write the resource, and a mutating webhook would change their writes"
)

// alternative is what users can do about a webhook that is refused.
const alternative = "remove the rule from the bundle, or install it with a Subscription in a namespace in which an administrator allows the installation's default account " +
	"(--default-account-namespaces)"

// exclusion describes resources that the webhooks of a bounded group must not intercept.
type exclusion struct {
	// in reports whether the exclusion applies to an API group.
	in func(group string) bool
	// resources are "<resource>" or "<resource>/<subresource>"; empty means all.
	resources []string
	// operations are the excluded operations; empty means all.
	operations []admissionregistrationv1.OperationType
	// mutating is true if only mutating webhooks are excluded.
	mutating bool
	why      string
}

func groups(names ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return group.Same(n, name) })
	}
}

// exclusions returns the resources that webhooks of a bounded group must not intercept: resources (including OpenShift's) whose
// writers grant or use their own permissions, and resources on which the bound itself depends.
func exclusions() []exclusion {
	core, connect := groups(""), []admissionregistrationv1.OperationType{admissionregistrationv1.Connect}
	return []exclusion{
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

// writes returns the operations during which a mutating webhook can change the stored object.
func writes() []admissionregistrationv1.OperationType {
	return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
}

// Refused returns an error for each of the CSV's admission webhooks that a bounded group must not have, regardless of
// the account's permissions: by intercepting another user's request, the operator could do more than the API server
// allows the account (ADR 0021).
func Refused(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	var errs []error
	all := exclusions()
	for i := range csv.Spec.WebhookDefinitions {
		errs = append(errs, refused(&csv.Spec.WebhookDefinitions[i], all))
	}
	return errors.Join(errs...)
}

func refused(d *operatorsv1alpha1.WebhookDescription, all []exclusion) error {
	if d.Type == operatorsv1alpha1.ConversionWebhook {
		return nil
	}
	mutates := d.Type == operatorsv1alpha1.MutatingAdmissionWebhook
	all = slices.DeleteFunc(slices.Clone(all), func(k exclusion) bool { return k.mutating && !mutates })
	for _, rule := range d.Rules {
		for _, name := range rule.APIGroups {
			for _, resource := range rule.Resources {
				what, why := excludedBy(rule, name, resource, all)
				if why == "" && mutates && writtenByAdministrators(rule, name, resource) {
					what, why = resource, whyCluster
				}
				if why != "" {
					return fmt.Errorf("webhook %q may not intercept %q in API group %q: %s. No permission allows this; %s", d.GenerateName, what, name, why, alternative)
				}
			}
		}
	}
	return nil
}

// excludedBy returns the excluded resource that a rule covers, and the reason. Both are "" if the rule covers none.
func excludedBy(rule admissionregistrationv1.RuleWithOperations, name, resource string, all []exclusion) (what, why string) {
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

// writtenByAdministrators reports whether a rule for create or update requests names cluster-scoped resources of
// Kubernetes itself. A wildcard does not include these resources ([bounded]) unless the rule is only for cluster-scoped
// objects.
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

// covers reports whether a resource of an admission rule includes another. "*" includes every resource without
// subresources, "x/*" includes x and its subresources, and "*/*" includes everything.
func covers(pattern, target string) bool {
	base, sub, _ := strings.Cut(strings.ToLower(pattern), "/")
	toBase, toSub, _ := strings.Cut(target, "/")
	return (base == "*" || base == toBase) && (sub == "*" || sub == toSub)
}

// intersects reports whether the operations of a rule include at least one of the given ones. An empty list of given
// operations stands for all of them.
func intersects(operations, some []admissionregistrationv1.OperationType) bool {
	return len(some) == 0 || slices.Contains(operations, admissionregistrationv1.OperationAll) ||
		slices.ContainsFunc(operations, func(o admissionregistrationv1.OperationType) bool { return slices.Contains(some, o) })
}

// runs lists, by API group, the resources whose objects can make a workload run as a ServiceAccount of their namespace
// or can contain a ServiceAccount's token.
var runs = map[string][]string{
	"":                   {"pods", "podtemplates", "replicationcontrollers", "secrets"},
	"apps":               {"controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"},
	"batch":              {"cronjobs", "jobs"},
	"extensions":         {"daemonsets", "deployments", "replicasets"},
	"apps.openshift.io":  {"deploymentconfigs"},
	"build.openshift.io": {"buildconfigs", "builds"},
}

// runsAsAnyServiceAccount reports whether a webhook can make workloads run as any ServiceAccount of a namespace: the
// API server lets the writer of a Pod, or of a Pod template, choose any of them without a permission check.
func runsAsAnyServiceAccount(d *operatorsv1alpha1.WebhookDescription) bool {
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
