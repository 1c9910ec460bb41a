package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Answer is a yes or no that is unknown if the user is not allowed to read what it depends on.
type Answer string

// Values of Answer.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Report is the output of the command. YAML and JSON use its json tags.
type Report struct {
	OperatorGroups []Group `json:"operatorGroups"`
	// Notes list what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Group is an OperatorGroup, or a namespace with Subscriptions but without an OperatorGroup.
type Group struct {
	Namespace string `json:"namespace"`
	// Name is "" if the namespace has no OperatorGroup.
	Name    string  `json:"name,omitempty"`
	Account Account `json:"account"`
	// Targets are the target namespaces in the OperatorGroup's status; one empty name stands for all namespaces.
	Targets   []string  `json:"targets,omitempty"`
	Installed []Install `json:"installed,omitempty"`
	Blocked   []Block   `json:"blocked,omitempty"`
	// Unneeded is nil if the needs or the permissions are unknown.
	Unneeded *Unneeded `json:"held,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
}

// Account is the account that bounds the installs.
type Account struct {
	// Name is <namespace>/<name>; "" for the installation's default account or if there is none.
	Name string `json:"name,omitempty"`
	// Default is set if the OperatorGroup names no account and the default account is used.
	Default bool `json:"default,omitempty"`
	// Exists and Enrolled are determined by this command, and Usable is from the OperatorGroup's status.
	Exists   Answer `json:"exists,omitempty"`
	Enrolled Answer `json:"enrolled,omitempty"`
	Usable   Answer `json:"usable"`
	Message  string `json:"message,omitempty"`
}

// Install is a ClusterServiceVersion.
type Install struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Message and Unmet are set if the operator does not run, exceeds its account, or was edited.
	Message string   `json:"message,omitempty"`
	Unmet   []string `json:"unmet,omitempty"`
}

// Block is something that is blocked.
type Block struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Condition string `json:"condition"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// newReport derives the report from what was read. It sends no requests.
func newReport(w *world, remitNamespace string) *Report {
	r := &Report{OperatorGroups: []Group{}, Notes: w.notes}
	seen := map[string]bool{}
	for i := range w.groups {
		og := &w.groups[i]
		g := Group{Namespace: og.Namespace, Name: og.Name, Targets: og.Status.Namespaces}
		g.Account = w.account(og, remitNamespace)
		g.Blocked = groupBlocks(og)
		w.fill(&g)
		if og.Spec.ServiceAccountName != "" {
			w.fillUnneeded(&g, og.Spec.ServiceAccountName)
		}
		seen[g.Namespace] = true
		r.OperatorGroups = append(r.OperatorGroups, g)
	}
	for _, namespace := range w.namespacesWithoutGroup(seen) {
		g := Group{Namespace: namespace, Account: Account{Usable: No, Message: "the namespace has no OperatorGroup"}}
		w.fill(&g)
		r.OperatorGroups = append(r.OperatorGroups, g)
	}
	slices.SortFunc(r.OperatorGroups, func(a, b Group) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return r
}

// namespacesWithoutGroup returns the namespaces with Subscriptions but without an OperatorGroup.
func (w *world) namespacesWithoutGroup(seen map[string]bool) []string {
	var out []string
	for i := range w.subscriptions {
		if namespace := w.subscriptions[i].Namespace; !seen[namespace] {
			seen[namespace] = true
			out = append(out, namespace)
		}
	}
	return out
}

// fill adds the namespace's installs and what is blocked.
func (w *world) fill(g *Group) {
	for i := range w.csvs {
		if csv := &w.csvs[i]; csv.Namespace == g.Namespace {
			g.Installed = append(g.Installed, install(csv))
		}
	}
	reported := map[string]bool{}
	for i := range w.subscriptions {
		sub := &w.subscriptions[i]
		if sub.Namespace != g.Namespace {
			continue
		}
		blocks := subscriptionBlocks(sub)
		if len(blocks) > 0 && sub.Status.InstallPlanRef != nil {
			reported[sub.Status.InstallPlanRef.Name] = true
		}
		g.Blocked = append(g.Blocked, blocks...)
		if c := sub.Status.GetCondition(names.ConditionUpgradeHeldBack); c.Status == corev1.ConditionTrue {
			g.Notes = append(g.Notes, fmt.Sprintf("Subscription %s: %s", sub.Name, c.Message))
		}
	}
	for i := range w.plans {
		if plan := &w.plans[i]; plan.Namespace == g.Namespace && !reported[plan.Name] {
			g.Blocked = append(g.Blocked, planBlocks(plan)...)
		}
	}
}

// succeeded is the message of a ClusterServiceVersion that has succeeded without notes.
const succeeded = "install strategy completed with no errors"

func install(csv *operatorsv1alpha1.ClusterServiceVersion) Install {
	out := Install{Name: csv.Name, Version: csv.Spec.Version.String(), Phase: string(csv.Status.Phase), Reason: string(csv.Status.Reason)}
	if csv.Status.Phase != operatorsv1alpha1.CSVPhaseSucceeded || csv.Status.Message != succeeded {
		out.Message = csv.Status.Message
	}
	if csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded {
		return out
	}
	for _, r := range csv.Status.RequirementStatus {
		if r.Status != operatorsv1alpha1.RequirementStatusReasonPresent {
			out.Unmet = append(out.Unmet, strings.TrimSuffix(fmt.Sprintf("%s %s: %s: %s", r.Kind, r.Name, r.Status, r.Message), ": "))
		}
	}
	return out
}

// groupBlocks returns the OperatorGroup's conditions that prevent installs in its namespace. The account's condition is shown
// with the account.
func groupBlocks(og *operatorsv1.OperatorGroup) []Block {
	var out []Block
	for _, c := range og.Status.Conditions {
		bad := c.Type == conditionMultiple && c.Status == "True" || c.Type == conditionTargets && c.Status == "False"
		if bad {
			out = append(out, Block{"OperatorGroup", og.Name, c.Type, c.Reason, c.Message})
		}
	}
	return out
}

// subscriptionBlocks returns the conditions that are True. All of them report problems when True, except UpgradeHeldBack.
// Conditions with the same content are shown once.
func subscriptionBlocks(sub *operatorsv1alpha1.Subscription) []Block {
	var out []Block
	for _, c := range sub.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Type == names.ConditionUpgradeHeldBack {
			continue
		}
		out = append(out, Block{"Subscription", sub.Name, string(c.Type), c.Reason, cmp.Or(refusals(c.Message), approval(sub, c))})
	}
	return distinct(out)
}

// next returns a hint on the command that prints the RBAC to grant, which the text of the block does not contain.
func (b Block) next(namespace string) string {
	if b.Condition != names.ConditionPermissionsMissing && b.Reason != names.ReasonAccountLacksPermissions {
		return ""
	}
	return fmt.Sprintf("To see everything that is missing and the RBAC that grants it: kubectl remit preflight %s/%s -n %s", strings.ToLower(b.Kind), b.Name, namespace)
}

// approval describes how to approve a Subscription's plan that waits for approval, because its condition then has no message.
func approval(sub *operatorsv1alpha1.Subscription, c operatorsv1alpha1.SubscriptionCondition) string {
	ref := sub.Status.InstallPlanRef
	if c.Type != operatorsv1alpha1.SubscriptionInstallPlanPending || c.Reason != string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval) || ref == nil {
		return ""
	}
	return preflight.HowToApprove(types.NamespacedName{Namespace: sub.Namespace, Name: ref.Name})
}

// distinct removes blocks whose message is part of another's: a plan reports why it waits or has failed in more than one
// condition.
func distinct(blocks []Block) []Block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool {
		return slices.ContainsFunc(blocks, func(other Block) bool {
			return other.includes(b) && (!b.includes(other) || precedence(other) < precedence(b))
		})
	})
}

// includes reports whether each line of another message is among those of this one.
func (b Block) includes(other Block) bool {
	lines := map[string]bool{}
	for _, line := range strings.Split(b.Message, "\n") {
		lines[line] = true
	}
	return other.Message != "" && !slices.ContainsFunc(strings.Split(other.Message, "\n"), func(line string) bool { return !lines[line] })
}

// precedence orders conditions with the same message, the most specific type first.
func precedence(b Block) int {
	switch b.Condition {
	case string(operatorsv1alpha1.SubscriptionInstallPlanPending):
		return 2
	case names.ConditionPermissionsMissing, names.ConditionObjectsRefused:
		return 1
	}
	return 0
}

// refusals removes the RBAC to apply, which "kubectl remit preflight" prints.
func refusals(message string) string { return strings.TrimSpace(preflight.WithoutPaste(message)) }

// planBlocks returns the problems of a plan that no Subscription reports.
func planBlocks(plan *operatorsv1alpha1.InstallPlan) []Block {
	switch plan.Status.Phase {
	case operatorsv1alpha1.InstallPlanPhaseComplete:
		return nil
	case operatorsv1alpha1.InstallPlanPhaseRequiresApproval:
		return []Block{{"InstallPlan", plan.Name, string(plan.Status.Phase), "", preflight.HowToApprove(client.ObjectKeyFromObject(plan))}}
	}
	c := plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
	if c.Reason == reasonSuperseded || plan.Status.Phase == "" {
		return nil
	}
	return []Block{{"InstallPlan", plan.Name, string(plan.Status.Phase), string(c.Reason), refusals(cmp.Or(c.Message, plan.Status.Message))}}
}

// blocked reports whether anything is blocked.
func (r *Report) blocked() bool {
	return slices.ContainsFunc(r.OperatorGroups, func(g Group) bool {
		return len(g.Blocked) > 0 || g.Account.Usable == No || slices.ContainsFunc(g.Installed, func(i Install) bool {
			return i.Phase != string(operatorsv1alpha1.CSVPhaseSucceeded) && i.Phase != string(operatorsv1alpha1.CSVPhaseReplacing)
		})
	})
}
