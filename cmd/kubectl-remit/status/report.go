package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Answer is yes or no, or unknown if the user is not allowed to read the required objects.
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
	// ClusterExtensions lists the ClusterExtensions of the requested namespace, or of the whole cluster.
	ClusterExtensions []Extension `json:"clusterExtensions,omitempty"`
	// Dangling lists the grants and enrollments that no ClusterExtension uses.
	Dangling []Dangling `json:"unusedGrants,omitempty"`
	// Leftovers lists the bindings of operators whose ClusterServiceVersion or ClusterExtension was deleted.
	Leftovers []Leftover `json:"leftovers,omitempty"`
	// Notes lists what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Group is an OperatorGroup, or a namespace with Subscriptions or ClusterServiceVersions but without an OperatorGroup.
type Group struct {
	Namespace string `json:"namespace"`
	// Name is "" if the namespace has no OperatorGroup.
	Name    string  `json:"name,omitempty"`
	Account Account `json:"account"`
	// Targets are the target namespaces in the OperatorGroup's status; one empty name means all namespaces.
	Targets   []string  `json:"targets,omitempty"`
	Installed []Install `json:"installed,omitempty"`
	Blocked   []Block   `json:"blocked,omitempty"`
	// Unneeded is nil if the needs or the permissions are unknown.
	Unneeded *Unneeded `json:"unneeded,omitempty"`
	Notes    []string  `json:"notes,omitempty"`
}

// Account is the account that bounds the installs.
type Account struct {
	// Name is <namespace>/<name>, or "" if the OperatorGroup names no account or there is no OperatorGroup.
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
	// Message is set unless the ClusterServiceVersion has succeeded and there is nothing else to report. Unmet lists
	// its unmet requirements; it is empty if the ClusterServiceVersion has succeeded.
	Message string   `json:"message,omitempty"`
	Unmet   []string `json:"unmet,omitempty"`
}

// Block is a blocked object and the condition that reports the reason.
type Block struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Condition string `json:"condition"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// newReport derives the report from the objects that were read. It sends no requests.
func newReport(ctx context.Context, w *world, remitNamespace string) *Report {
	r := &Report{OperatorGroups: []Group{}}
	seen := map[string]bool{}
	for i := range w.groups {
		og := &w.groups[i]
		g := Group{Namespace: og.Namespace, Name: og.Name, Targets: og.Status.Namespaces}
		g.Account = w.account(og, remitNamespace)
		g.Blocked = groupBlocks(og)
		w.fill(&g)
		if og.Spec.ServiceAccountName != "" {
			w.fillUnneeded(ctx, &g, og.Spec.ServiceAccountName)
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
	w.noteOtherCopies(seen)
	w.fillExtensions(r, remitNamespace)
	var err error
	if r.Leftovers, err = w.leftovers(); err != nil {
		w.note("permissions of deleted operators are unknown: %v", err)
	}
	r.Notes = w.notes
	return r
}

// fillExtensions adds the ClusterExtensions, and the grants that none of them uses.
func (w *world) fillExtensions(r *Report, remitNamespace string) {
	for i := range w.extensions {
		if ext := &w.extensions[i]; w.requested == "" || ext.Spec.Namespace == w.requested {
			r.ClusterExtensions = append(r.ClusterExtensions, w.extension(ext, remitNamespace))
		}
	}
	slices.SortFunc(r.ClusterExtensions, compareExtensions)
	if w.rbac == nil || !w.hasExtensions {
		return // the notes contain the reason
	}
	var err error
	if r.Dangling, err = w.dangling(w.requested); err != nil {
		w.note("unused permissions of ClusterExtensions are unknown: %v", err)
	}
}

// namespacesWithoutGroup returns the namespaces with Subscriptions or ClusterServiceVersions but without an OperatorGroup, and adds
// them to seen. Copies count only in the requested namespace.
func (w *world) namespacesWithoutGroup(seen map[string]bool) []string {
	var out []string
	add := func(namespace string) {
		if !seen[namespace] {
			seen[namespace] = true
			out = append(out, namespace)
		}
	}
	for i := range w.subscriptions {
		add(w.subscriptions[i].Namespace)
	}
	for i := range w.csvs {
		add(w.csvs[i].Namespace)
	}
	if w.copies[w.requested] > 0 {
		add(w.requested)
	}
	return out
}

// fill adds the namespace's installs and blocked objects, and notes about upgrades that are held back.
func (w *world) fill(g *Group) {
	for i := range w.csvs {
		if csv := &w.csvs[i]; csv.Namespace == g.Namespace {
			g.Installed = append(g.Installed, install(csv))
		}
	}
	w.noteCopies(g)
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

// succeeded is the message of a ClusterServiceVersion that has succeeded and has nothing else to report.
const succeeded = "install strategy completed with no errors"

func install(csv *operatorsv1alpha1.ClusterServiceVersion) Install {
	out := Install{Name: csv.Name, Version: csv.Spec.Version.String(), Phase: string(csv.Status.Phase), Reason: string(csv.Status.Reason)}
	if csv.Status.Phase != operatorsv1alpha1.CSVPhaseSucceeded || csv.Status.Message != succeeded {
		out.Message = csv.Status.Message
	}
	if copied := claim(csv); copied != "" {
		out.Message = strings.TrimPrefix(out.Message+"; "+copied, "; ")
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

// groupBlocks returns the OperatorGroup's conditions that prevent installs in its namespace, and permissions that exceed the
// account. The account's own
// condition is shown with the account. If the OperatorGroup leaves its namespace to OLM, its conditions are not shown,
// because Remit does not update them.
func groupBlocks(og *operatorsv1.OperatorGroup) []Block {
	if scoped.LeftToOLM(og) {
		return []Block{{"OperatorGroup", og.Name, "ManagedBy", "LeftToOLM", fmt.Sprintf(
			"Remit does nothing in this namespace, because the annotation %s=%s leaves it to OLM v0. To take it over: kubectl remit adopt",
			names.AnnotationManagedBy, names.ManagedByOLM)}}
	}
	var out []Block
	for _, c := range og.Status.Conditions {
		bad := c.Type == conditionMultiple && c.Status == "True" || c.Type == conditionTargets && c.Status == "False" ||
			c.Type == names.ConditionExceedsAccount && c.Status == "True"
		if bad {
			out = append(out, Block{"OperatorGroup", og.Name, c.Type, c.Reason, c.Message})
		}
	}
	return out
}

// subscriptionBlocks returns a block for each condition that is True, except UpgradeHeldBack, which does not report a
// problem. If several conditions have the same message, it returns only one of them.
func subscriptionBlocks(sub *operatorsv1alpha1.Subscription) []Block {
	var out []Block
	for _, c := range sub.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Type == names.ConditionUpgradeHeldBack {
			continue
		}
		out = append(out, Block{"Subscription", sub.Name, string(c.Type), c.Reason, cmp.Or(refusals(c.Message), string(approval(sub, c)))})
	}
	return distinct(out)
}

// next returns a hint with the command that prints the RBAC to grant, because the block's message does not contain it.
// It returns "" if the block does not report missing permissions.
func (b Block) next(namespace string) string {
	if b.Condition != names.ConditionPermissionsMissing && b.Reason != names.ReasonAccountLacksPermissions {
		return ""
	}
	return fmt.Sprintf("To see everything that is missing and grant it: kubectl remit grant %s/%s -n %s", strings.ToLower(b.Kind), b.Name, namespace)
}

// approval describes how to approve the Subscription's plan, because the condition of a plan that is waiting for
// approval has no message. For other conditions, it returns "".
func approval(sub *operatorsv1alpha1.Subscription, c operatorsv1alpha1.SubscriptionCondition) message.Text {
	ref := sub.Status.InstallPlanRef
	if c.Type != operatorsv1alpha1.SubscriptionInstallPlanPending || c.Reason != string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval) || ref == nil {
		return ""
	}
	if len(validation.IsDNS1123Subdomain(ref.Name)) > 0 { // users who write statuses can name anything
		return ""
	}
	return howToApprove(types.NamespacedName{Namespace: sub.Namespace, Name: ref.Name})
}

// howToApprove describes how to approve a plan. It adds that the plan was not verified, because other users may be able to create
// plans and to write the status that names one.
func howToApprove(plan types.NamespacedName) message.Text {
	return message.Lines(preflight.HowToApprove(plan), "No catalog has confirmed the plan's content here; plan show compares it with a bundle from --bundle.")
}

// distinct removes blocks whose message is contained in another block's message. A plan can report the same problem in
// more than one condition.
func distinct(blocks []Block) []Block {
	return slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool {
		return slices.ContainsFunc(blocks, func(other Block) bool {
			return other.includes(b) && (!b.includes(other) || precedence(other) < precedence(b))
		})
	})
}

// includes reports whether the block's message contains each line of the other block's message. It returns false if the
// other message is empty.
func (b Block) includes(other Block) bool {
	lines := map[string]bool{}
	for _, line := range strings.Split(b.Message, "\n") {
		lines[line] = true
	}
	return other.Message != "" && !slices.ContainsFunc(strings.Split(other.Message, "\n"), func(line string) bool { return !lines[line] })
}

// precedence returns the rank of a block among blocks with the same message. The most specific condition has the lowest
// rank.
func precedence(b Block) int {
	switch b.Condition {
	case string(operatorsv1alpha1.SubscriptionInstallPlanPending):
		return 2
	case names.ConditionPermissionsMissing, names.ConditionObjectsRefused:
		return 1
	}
	return 0
}

// refusals removes the RBAC to apply from a message, because "kubectl remit grant" prints it.
func refusals(message string) string { return strings.TrimSpace(preflight.WithoutPaste(message)) }

// planBlocks returns a block for a plan that is neither complete nor superseded, and nil for other plans. It is used
// for plans that no Subscription's conditions report.
func planBlocks(plan *operatorsv1alpha1.InstallPlan) []Block {
	switch plan.Status.Phase {
	case operatorsv1alpha1.InstallPlanPhaseComplete:
		return nil
	case operatorsv1alpha1.InstallPlanPhaseRequiresApproval:
		return []Block{{"InstallPlan", plan.Name, string(plan.Status.Phase), "", string(howToApprove(client.ObjectKeyFromObject(plan)))}}
	}
	c := plan.Status.GetCondition(operatorsv1alpha1.InstallPlanInstalled)
	if c.Reason == reasonSuperseded || plan.Status.Phase == "" {
		return nil
	}
	return []Block{{"InstallPlan", plan.Name, string(plan.Status.Phase), string(c.Reason), refusals(cmp.Or(c.Message, plan.Status.Message))}}
}

// blocked reports whether any object is blocked, any account is unusable or any install is not running. Unused grants do not
// count.
func (r *Report) blocked() bool {
	return slices.ContainsFunc(r.ClusterExtensions, Extension.blocked) || slices.ContainsFunc(r.OperatorGroups, func(g Group) bool {
		return len(g.Blocked) > 0 || g.Account.Usable == No || slices.ContainsFunc(g.Installed, func(i Install) bool {
			return i.Phase != string(operatorsv1alpha1.CSVPhaseSucceeded) && i.Phase != string(operatorsv1alpha1.CSVPhaseReplacing)
		})
	})
}
