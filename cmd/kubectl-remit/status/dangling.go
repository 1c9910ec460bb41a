package status

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Dangling is a binding or a role for the identity of a ClusterExtension that does not exist. A ClusterExtension that
// is created with the same name gets the permissions.
type Dangling struct {
	Kind string `json:"kind"`
	// Namespace is "" for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Role is the "<Kind> <name>" of the role that a binding refers to.
	Role string `json:"role,omitempty"`
	// Identities lists the users and ServiceAccounts that are not the identity of any ClusterExtension.
	Identities []string `json:"identities"`
	// Enrollment is true for objects that allow Remit to act as the identity.
	Enrollment bool `json:"enrollment,omitempty"`
}

// dangling returns the grants and enrollments that no ClusterExtension uses, sorted by namespace, kind and name.
func (w *world) dangling(namespace string) ([]Dangling, error) {
	d := search{used: map[string]bool{}, bound: map[string]bool{}, namespace: namespace}
	for i := range w.extensions {
		d.used[assess.Identity(&w.extensions[i]).String()] = true
	}
	// The bindings come first, because roles with a binding are not reported separately.
	if err := errors.Join(
		each(&d, w.rbac.RoleBindings.List, func(b *rbacv1.RoleBinding) { d.binding("RoleBinding", b, b.RoleRef, b.Subjects) }),
		each(&d, w.rbac.ClusterRoleBindings.List, func(b *rbacv1.ClusterRoleBinding) { d.binding("ClusterRoleBinding", b, b.RoleRef, b.Subjects) }),
		each(&d, w.rbac.Roles.List, func(r *rbacv1.Role) { d.role("Role", r) }),
		each(&d, w.rbac.ClusterRoles.List, func(r *rbacv1.ClusterRole) { d.role("ClusterRole", r) }),
	); err != nil {
		return nil, err
	}
	slices.SortFunc(d.found, func(a, b Dangling) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return d.found, nil
}

// search collects the objects to report.
type search struct {
	// used contains the identities of all ClusterExtensions.
	used map[string]bool
	// namespace limits the search; "" means the whole cluster, including cluster-scoped objects.
	namespace string
	// bound contains the roles of the bindings that were found. They are not reported separately.
	bound map[string]bool
	found []Dangling
}

// each calls add for the objects of a list that are in the namespaces of the search.
func each[T client.Object](d *search, list func(labels.Selector) ([]T, error), add func(T)) error {
	all, err := list(labels.Everything())
	for _, obj := range all {
		if d.covers(obj) {
			add(obj)
		}
	}
	return err
}

// covers reports whether an object is in the namespaces of the search.
func (d *search) covers(obj client.Object) bool {
	return d.namespace == "" || obj.GetNamespace() == d.namespace
}

// binding adds a binding if it names the user of a ClusterExtension that does not exist, or if it belongs to an enrollment that
// no ClusterExtension uses.
func (d *search) binding(kind string, b client.Object, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	one := Dangling{Kind: kind, Namespace: b.GetNamespace(), Name: b.GetName(), Role: ref.Kind + " " + ref.Name}
	identities := usersOf(subjects)
	if enrolled := enrolledBy(ref.Kind, ref.Name, b.GetNamespace()); enrolled != "" {
		one.Enrollment, identities = true, []string{enrolled}
	}
	if d.add(one, identities) {
		d.bound[b.GetNamespace()+"/"+one.Role] = true
	}
}

// usersOf returns the users of ClusterExtensions that a binding names.
func usersOf(subjects []rbacv1.Subject) []string {
	found := map[string]bool{}
	for _, s := range subjects {
		if name, ok := strings.CutPrefix(s.Name, names.UserExtensionPrefix); ok && s.Kind == rbacv1.UserKind {
			found[scoped.Identity{Extension: name}.String()] = name != ""
		}
	}
	maps.DeleteFunc(found, func(_ string, isNamed bool) bool { return !isNamed })
	return slices.Sorted(maps.Keys(found))
}

// role adds a role without a binding if it belongs to a grant or an enrollment that no ClusterExtension uses.
func (d *search) role(kind string, r client.Object) {
	one := Dangling{Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName()}
	if d.bound[r.GetNamespace()+"/"+kind+" "+r.GetName()] {
		return
	}
	if enrolled := enrolledBy(kind, r.GetName(), r.GetNamespace()); enrolled != "" {
		one.Enrollment = true
		d.add(one, []string{enrolled})
	} else if extension, ok := preflight.ExtensionOfGrant(r.GetName()); ok {
		d.add(one, []string{scoped.Identity{Extension: extension}.String()})
	}
}

// enrolledBy returns the identity that the role of an enrollment enrolls, or "" for other roles.
func enrolledBy(kind, role, namespace string) string {
	name, ok := scoped.EnrolledForExtension(role)
	switch {
	case !ok:
		return ""
	case kind == "ClusterRole":
		return scoped.Identity{Extension: name}.String()
	}
	return scoped.ServiceAccountIdentity(types.NamespacedName{Namespace: namespace, Name: name}).String()
}

// add adds an object for the identities that no ClusterExtension has. It returns false if every identity belongs to a
// ClusterExtension.
func (d *search) add(one Dangling, identities []string) bool {
	for _, identity := range identities {
		if !d.used[identity] {
			one.Identities = append(one.Identities, identity)
		}
	}
	if len(one.Identities) == 0 {
		return false
	}
	d.found = append(d.found, one)
	return true
}
