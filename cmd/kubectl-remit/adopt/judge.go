package adopt

import (
	"cmp"
	"fmt"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// plan contains the changes to make in one namespace.
type plan struct {
	namespace string
	report    Namespace
	groups    []operatorsv1.OperatorGroup
	catalogs  []metav1.PartialObjectMetadata
	signs     []signing
	// leftRoles contains the roles that were to be signed but are left.
	leftRoles map[roleKey]bool
}

// signing is an object to which a proof is added.
type signing struct {
	object client.Object
	owner  ownerutil.Owner
	// labels are set on the object.
	labels map[string]string
	// left means that the object is not signed after all.
	left bool
}

// install is an operator that is installed in the namespace.
type install struct {
	csv         *operatorsv1alpha1.ClusterServiceVersion
	sub         *operatorsv1alpha1.Subscription
	owner       ownerutil.Owner
	targets     []string
	deployments map[string]*appsv1.Deployment
	report      Install
}

// judge decides what happens to a namespace and all of its objects.
func (w *world) judge(namespace string) *plan {
	p := &plan{namespace: namespace, groups: w.groups[namespace], catalogs: w.catalogs[namespace]}
	p.report = Namespace{Name: namespace, ManagedBy: "remit"}
	if slices.ContainsFunc(p.groups, func(og operatorsv1.OperatorGroup) bool { return scoped.LeftToOLM(&og) }) ||
		slices.ContainsFunc(p.catalogs, func(cs metav1.PartialObjectMetadata) bool { return scoped.LeftToOLM(&cs) }) {
		p.report.ManagedBy = names.ManagedByOLM
	}
	installs := w.installs(p)
	for _, in := range installs {
		w.judgeCSV(p, in)
	}
	j := &judge{world: w, plan: p, installs: installs}
	for _, obj := range w.objects {
		j.object(obj)
	}
	j.bindings()
	for _, in := range installs {
		j.finish(in)
	}
	w.others(p)
	slices.SortFunc(p.report.Objects, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.For, b.For), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return p
}

func (p *plan) refuse(format string, args ...any) {
	p.report.Refused = append(p.report.Refused, fmt.Sprintf(format, args...))
}

func (p *plan) note(format string, args ...any) {
	p.report.Notes = append(p.report.Notes, fmt.Sprintf(format, args...))
}

// add adds an object to the report.
func (p *plan) add(obj client.Object, v Verdict, csv, why string) {
	p.report.Objects = append(p.report.Objects, Object{
		Kind: apply.KindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(), Verdict: v, For: csv, Why: why,
	})
	if v == Refused {
		p.refuse("%s: %s", apply.Describe(obj), why)
	}
}

// installs returns the operators of a namespace, and validates its OperatorGroup.
func (w *world) installs(p *plan) []*install {
	csvs := w.csvs[p.namespace]
	groups := p.groups
	if len(groups) == 1 {
		p.report.OperatorGroup = groups[0].Name
	}
	switch err := w.untargeted[p.namespace]; {
	case len(csvs) == 0:
	case len(groups) != 1:
		p.refuse("the namespace has %d OperatorGroups; exactly one is required", len(groups))
	case err != nil:
		p.refuse("the target namespaces are unknown: %v", err)
	case groups[0].Spec.ServiceAccountName == "":
		p.note("OperatorGroup %s does not name a ServiceAccount: without a default account, installed operators continue to run, but nothing is upgraded or removed", groups[0].Name)
	}
	var out []*install
	for i := range csvs {
		in := &install{csv: &csvs[i], targets: w.targets[p.namespace], deployments: map[string]*appsv1.Deployment{}}
		in.sub = w.subscriptionOf(p, in.csv)
		in.report.ClusterServiceVersion = in.csv.Name
		lineage := ownerutil.DirectLineage(in.csv.Name, p.namespace)
		if in.sub != nil {
			lineage = ownerutil.Lineage{Package: in.sub.Spec.Package, Namespace: p.namespace}
			in.report.Package, in.report.Subscription = in.sub.Spec.Package, in.sub.Name
		}
		in.owner = ownerutil.Owner{Lineage: lineage, CSV: in.csv.Name, UID: in.csv.UID, Since: w.createdAt(p.namespace)}
		if w.keys != nil {
			in.owner.Proofs = w.keys
		}
		out = append(out, in)
	}
	return out
}

// subscriptionOf returns the Subscription that installed a ClusterServiceVersion according to its status, or nil. Both are in
// the same namespace, so a forged status affects only that namespace.
func (w *world) subscriptionOf(p *plan, csv *operatorsv1alpha1.ClusterServiceVersion) *operatorsv1alpha1.Subscription {
	var found *operatorsv1alpha1.Subscription
	for i := range w.subscriptions[p.namespace] {
		sub := &w.subscriptions[p.namespace][i]
		switch {
		case sub.Spec == nil || sub.Status.InstalledCSV != csv.Name:
		case found != nil && found.Spec.Package != sub.Spec.Package:
			p.refuse("Subscriptions %s and %s for different packages both report ClusterServiceVersion %s as installed", found.Name, sub.Name, csv.Name)
		case found == nil:
			found = sub
		}
	}
	return found
}

// judgeCSV decides what happens to a ClusterServiceVersion. A ClusterServiceVersion that a user created needs no proof.
func (w *world) judgeCSV(p *plan, in *install) {
	switch phase := in.csv.Status.Phase; {
	case in.csv.DeletionTimestamp != nil:
		p.add(in.csv, Refused, in.csv.Name, "it is being deleted")
	case phase != operatorsv1alpha1.CSVPhaseSucceeded:
		p.add(in.csv, Refused, in.csv.Name, fmt.Sprintf("its phase is %q instead of Succeeded; let OLM complete the install, or delete the ClusterServiceVersion", phase))
	case in.owner.Direct:
		p.add(in.csv, Left, in.csv.Name, "no Subscription installed it; Remit treats it as created by a user, so it needs no proof")
	default:
		p.sign(in.csv, in, map[string]string{names.LabelLineage: in.owner.Mark(), in.owner.ComponentLabel(): ""})
	}
}

// sign adds an object to the objects to sign, unless the object already has the install's proof. The caller has proven that the
// object belongs to the install. It reports whether the install has or gets the object.
func (p *plan) sign(obj client.Object, in *install, labels map[string]string) bool {
	owner := in.owner
	mark := obj.GetLabels()[names.LabelLineage]
	isOutside := obj.GetNamespace() != owner.Namespace
	switch {
	case obj.GetDeletionTimestamp() != nil:
		p.add(obj, p.refusalOf(obj), in.csv.Name, "it is being deleted")
	case owner.Proofs != nil && owner.Owns(obj) && !isForeign(obj, owner):
		p.add(obj, Adopted, in.csv.Name, "")
		return true
	case mark != "" && !owner.IsMark(mark):
		p.add(obj, p.refusalOf(obj), in.csv.Name, "its label "+names.LabelLineage+" names another install of Remit")
	case isOutside && obj.GetCreationTimestamp().Time.Before(owner.Since):
		p.add(obj, Left, in.csv.Name, "it is older than the namespace, so it was created for an earlier namespace with the same name")
	default:
		p.add(obj, Adopt, in.csv.Name, "")
		p.signs = append(p.signs, signing{object: obj, owner: owner, labels: labels})
		return true
	}
	return false
}

// isForeign reports whether OLM still manages some fields of an object.
func isForeign(obj client.Object, owner ownerutil.Owner) bool {
	_, moved := transferred(obj.GetManagedFields(), managerOf(owner))
	return len(moved) > 0
}

// finish checks that all of the operator's Deployments were found, and compares them with those that Remit would write.
func (j *judge) finish(in *install) {
	want, err := deployment.Desired(deployment.Input{CSV: in.csv, Owner: in.owner, Config: in.config(),
		Group: deployment.GroupAnnotations(j.plan.report.OperatorGroup, in.csv.Namespace, in.targets)})
	if err != nil {
		j.plan.refuse("ClusterServiceVersion %s: %v", in.csv.Name, err)
		return
	}
	for _, d := range want {
		live := in.deployments[d.Name]
		if live == nil {
			if !j.isListed("Deployment", d.Name) {
				j.plan.refuse("Deployment %s/%s of ClusterServiceVersion %s does not exist or has no owner reference to it", d.Namespace, d.Name, in.csv.Name)
			}
			continue
		}
		in.report.Deployments = append(in.report.Deployments, compare(in.csv, live, d))
		j.setHash(live, d.Labels[names.LabelDeploymentSpecHash])
	}
	j.plan.report.Installs = append(j.plan.report.Installs, in.report)
}

func (in *install) config() *operatorsv1alpha1.SubscriptionConfig {
	if in.sub == nil {
		return nil
	}
	return in.sub.Spec.Config
}

func (j *judge) isListed(kind, name string) bool {
	return slices.ContainsFunc(j.plan.report.Objects, func(o Object) bool { return o.Kind == kind && o.Namespace == j.plan.namespace && o.Name == name })
}

// setHash sets the spec hash of a Deployment that is about to be signed, so that Remit treats the Deployment as up to date.
// Remit then updates it only when the desired spec changes, as for a Deployment that others have edited.
func (j *judge) setHash(live *appsv1.Deployment, hash string) {
	for i := range j.plan.signs {
		if j.plan.signs[i].object == client.Object(live) {
			j.plan.signs[i].labels[names.LabelDeploymentSpecHash] = hash
		}
	}
}
