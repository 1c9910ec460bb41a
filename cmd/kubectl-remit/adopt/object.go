package adopt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// judge decides what happens to the objects of one namespace.
//
// The evidence for an object must be in the object itself: a user who can forge it there can already change the object. The
// Subscriptions, ClusterServiceVersions and InstallPlans of a tenant prove nothing about other users' objects.
type judge struct {
	*world
	plan     *plan
	installs []*install
	// bound contains the bindings, which are decided last because their roles must be known.
	bound []boundTo
	// roles contains the rules of the roles that are adopted, by kind, namespace and name.
	roles map[roleKey][]rbacv1.PolicyRule
}

type roleKey struct{ kind, namespace, name string }

// boundRole returns the role to which a binding refers.
func boundRole(binding client.Object) roleKey {
	ref := rbac.RoleRefOf(binding)
	key := roleKey{kind: ref.Kind, name: ref.Name}
	if ref.Kind == "Role" {
		key.namespace = binding.GetNamespace()
	}
	return key
}

type boundTo struct {
	binding client.Object
	install *install
}

// object decides what happens to one object, if it claims to belong to an install of the namespace.
func (j *judge) object(obj client.Object) {
	if obj.GetObjectKind().GroupVersionKind().Kind == "CustomResourceDefinition" {
		j.definition(obj)
		return
	}
	in, why := j.ownerOf(obj)
	switch {
	case why != "":
		csv := ""
		if in != nil {
			csv = in.csv.Name
		}
		j.plan.add(obj, j.plan.refusalOf(obj), csv, why)
	case in == nil:
	case isBinding(obj):
		j.bound = append(j.bound, boundTo{obj, in})
	default:
		// Users of a target namespace can create a Deployment with the name of the operator's.
		if d, ok := obj.(*appsv1.Deployment); ok && d.Namespace == j.plan.namespace {
			in.deployments[d.Name] = d
		}
		if j.plan.sign(obj, in, in.owner.Labels()) {
			j.keepRole(obj)
		}
	}
}

// refusalOf returns the verdict about an object that cannot be proven to belong to an install. The namespace is refused only
// for objects that an operator needs: its ClusterServiceVersion, Deployments and ServiceAccounts. Remit creates its own
// roles, and reports other objects when an upgrade needs them. An object outside the namespace never causes a refusal,
// because another tenant can set its labels.
func (p *plan) refusalOf(obj client.Object) Verdict {
	switch obj.GetObjectKind().GroupVersionKind().Kind {
	case "Deployment", "ServiceAccount", operatorsv1alpha1.ClusterServiceVersionKind:
		if obj.GetNamespace() == p.namespace {
			return Refused
		}
	}
	return Left
}

// ownerOf returns the install to which an object claims to belong, and the reason if this cannot be proven. It returns nil
// and "" if the object does not claim to belong to an install.
func (j *judge) ownerOf(obj client.Object) (*install, string) {
	if obj.GetNamespace() == j.plan.namespace && len(obj.GetOwnerReferences()) > 0 {
		return j.referenced(obj)
	}
	labels := obj.GetLabels()
	if labels[names.LabelOwnerKind] != operatorsv1alpha1.ClusterServiceVersionKind || labels[names.LabelOwnerNamespace] != j.plan.namespace {
		return nil, ""
	}
	if obj.GetNamespace() == "" && len(obj.GetOwnerReferences()) > 0 && !isNamespaceOnly(obj) {
		return nil, "another object owns it: " + describeOwners(obj)
	}
	for _, in := range j.installs {
		switch {
		case ownerutil.LabelValue(in.csv.Name) != labels[names.LabelOwner]:
		case obj.GetNamespace() == j.plan.namespace:
			return in, fmt.Sprintf("its labels name ClusterServiceVersion %s, but it has no owner reference to it", in.csv.Name)
		case !isInReach(obj, in):
			return in, "it is in a namespace that is not a target of the OperatorGroup"
		default:
			return in, ""
		}
	}
	return nil, fmt.Sprintf("its labels name ClusterServiceVersion %s, which does not exist", labels[names.LabelOwner])
}

// isInReach reports whether an object outside an install's namespace is where the install can have objects: it is cluster-scoped,
// or in a target namespace.
func isInReach(obj client.Object, in *install) bool {
	ns := obj.GetNamespace()
	return ns == "" || slices.Contains(in.targets, ns) || slices.Contains(in.targets, metav1.NamespaceAll)
}

// isNamespaceOnly reports whether an object's owner references, if any, refer only to Namespaces, as in objects that Remit
// created.
func isNamespaceOnly(obj client.Object) bool {
	return !slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind != "Namespace" })
}

// referenced returns the install to which an object belongs according to its owner references.
func (j *judge) referenced(obj client.Object) (*install, string) {
	var found *install
	others, stale := 0, ""
	for _, ref := range obj.GetOwnerReferences() {
		if !isToCSV(ref) {
			others++
			continue
		}
		i := slices.IndexFunc(j.installs, func(in *install) bool { return in.csv.UID == ref.UID })
		switch {
		case i < 0:
			stale = fmt.Sprintf("its owner reference refers to ClusterServiceVersion %s with UID %s, which does not exist", ref.Name, ref.UID)
		case found != nil && found != j.installs[i]:
			return found, fmt.Sprintf("ClusterServiceVersions %s and %s both own it", found.csv.Name, j.installs[i].csv.Name)
		case j.installs[i].csv.Name != ref.Name:
			stale = fmt.Sprintf("its owner reference has the UID of ClusterServiceVersion %s, but the name %s", j.installs[i].csv.Name, ref.Name)
		default:
			found = j.installs[i]
		}
	}
	labels := obj.GetLabels()
	switch {
	case found == nil && stale == "":
		return nil, "" // the object does not claim to belong to an install
	case stale != "":
		return found, stale
	case others > 0:
		return found, "other objects own it as well: " + describeOwners(obj)
	case labels[names.LabelOwner] != "" && labels[names.LabelOwner] != ownerutil.LabelValue(found.csv.Name):
		return found, fmt.Sprintf("its owner reference names ClusterServiceVersion %s, but its label %s names %s", found.csv.Name, names.LabelOwner, labels[names.LabelOwner])
	}
	return found, ""
}

func isToCSV(ref metav1.OwnerReference) bool {
	return ref.Kind == operatorsv1alpha1.ClusterServiceVersionKind && strings.HasPrefix(ref.APIVersion, operatorsv1alpha1.GroupName+"/")
}

func describeOwners(obj client.Object) string {
	var out []string
	for _, ref := range obj.GetOwnerReferences() {
		out = append(out, ref.Kind+" "+ref.Name)
	}
	return strings.Join(out, ", ")
}

func isBinding(obj client.Object) bool {
	switch obj.(type) {
	case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
		return true
	}
	return false
}

func (j *judge) keepRole(obj client.Object) {
	if j.roles == nil {
		j.roles = map[roleKey][]rbacv1.PolicyRule{}
	}
	switch role := obj.(type) {
	case *rbacv1.Role:
		j.roles[roleKey{"Role", role.Namespace, role.Name}] = role.Rules
	case *rbacv1.ClusterRole:
		if role.AggregationRule == nil {
			j.roles[roleKey{"ClusterRole", "", role.Name}] = role.Rules
		}
	}
}

// bindings decides what happens to the bindings. Remit does not report the permissions of its own bindings as excess, because
// they were written as the account. OLM wrote the existing bindings as a cluster administrator, so they are adopted only if the
// ClusterServiceVersion's permissions, which Remit always compares with those of the account, require them.
func (j *judge) bindings() {
	for _, b := range j.bound {
		if why := j.notRequired(b); why != "" {
			j.plan.add(b.binding, Left, b.install.csv.Name, why)
			continue
		}
		j.plan.sign(b.binding, b.install, b.install.owner.Labels())
	}
}

func (j *judge) notRequired(b boundTo) string {
	role := boundRole(b.binding)
	rules, known := j.roles[role]
	if !known {
		return fmt.Sprintf("it binds %s %s, which does not belong to the operator", role.kind, role.name)
	}
	for _, subject := range rbac.SubjectsOf(b.binding) {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != b.install.csv.Namespace {
			return fmt.Sprintf("it binds %s %s, which is not a ServiceAccount of the operator", subject.Kind, subject.Name)
		}
		var allowed []rbacv1.PolicyRule
		for _, g := range build.Grants(b.install.csv, b.install.csv.Namespace, b.install.targets) {
			// For an OperatorGroup that targets all namespaces, OLM keeps the Role in addition to a ClusterRole with the same rules.
			if g.ServiceAccount == subject.Name && (g.Namespace == b.binding.GetNamespace() || g.Namespace == rbac.ClusterScope) {
				allowed = append(allowed, g.Rules...)
			}
		}
		if b.binding.GetNamespace() == b.install.csv.Namespace {
			allowed = append(allowed, certificateRules(b.install.csv, subject.Name)...)
		}
		if more := rbac.Missing(allowed, rules); len(more) > 0 {
			return fmt.Sprintf("it grants ServiceAccount %s more than the ClusterServiceVersion requires: %s", subject.Name, rbac.Line(more[0]))
		}
	}
	return ""
}

// certificateRules returns the rules that allow a ServiceAccount to read the serving certificates of its Deployments. Remit
// grants the same rules, with the same names.
func certificateRules(csv *operatorsv1alpha1.ClusterServiceVersion, account string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, d := range serving.Served(csv) {
		if serving.Subject(csv, d.Name).Name == account {
			out = append(out, serving.CertificateRules(d)...)
		}
	}
	return out
}

// definition decides what happens to a CustomResourceDefinition. OLM records the ClusterServiceVersions that installed it in
// annotations. Remit can use a CustomResourceDefinition that it does not own, so a missing proof does not prevent the adoption.
func (j *judge) definition(obj client.Object) {
	for _, in := range j.installs {
		if !slices.ContainsFunc(in.csv.Spec.CustomResourceDefinitions.Owned, func(d operatorsv1alpha1.CRDDescription) bool { return d.Name == obj.GetName() }) {
			continue
		}
		if why := j.notAlongside(obj, in); why != "" {
			j.plan.add(obj, Left, in.csv.Name, why)
			continue
		}
		j.plan.sign(obj, in, map[string]string{names.LabelManaged: "true", names.LabelLineage: in.owner.Mark(), in.owner.ComponentLabel(): ""})
	}
}

func (j *judge) notAlongside(obj client.Object, in *install) string {
	named := false
	for _, value := range alongside(obj) {
		namespace, name, _ := strings.Cut(value, "/")
		if namespace == in.csv.Namespace && name == in.csv.Name {
			named = true
			continue
		}
		if slices.ContainsFunc(j.csvs[namespace], func(c operatorsv1alpha1.ClusterServiceVersion) bool { return c.Name == name }) {
			return "it was also installed with ClusterServiceVersion " + value
		}
	}
	if !named {
		return "no annotation " + names.AnnotationInstalledAlongsidePrefix + "... names the ClusterServiceVersion"
	}
	return ""
}

// alongside returns the annotations in which OLM records the ClusterServiceVersions that installed a CustomResourceDefinition.
func alongside(obj client.Object) map[string]string {
	out := maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(out, func(key, _ string) bool { return !strings.HasPrefix(key, names.AnnotationInstalledAlongsidePrefix) })
	return out
}
