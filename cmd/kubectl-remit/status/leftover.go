package status

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Leftover is a binding or webhook configuration of an operator whose ClusterServiceVersion or ClusterExtension does not exist. Its
// labels say so; the command cannot verify its proof.
type Leftover struct {
	Kind string `json:"kind"`
	// Namespace is "" for an object of the cluster.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Role is the "<Kind> <name>" of the role that the binding refers to; "" for webhooks.
	Role string `json:"role,omitempty"`
	// Owner is the kind and name of the object that was deleted.
	Owner string `json:"owner"`
	// Remove is the command that deletes the object.
	Remove string `json:"remove"`
}

func (l Leftover) String() string {
	role := ""
	if l.Role != "" {
		role = " (" + quoted(l.Role) + ")"
	}
	return fmt.Sprintf("%s%s, of %s: %s", strings.TrimSpace(l.Kind+" "+message.Word(l.Name)), role, quoted(l.Owner), l.Remove)
}

// quoted returns a reference of the form "<Kind> <name>" with a name that is one word: others choose it, and names of RBAC objects may
// contain spaces, so that a name could look like the rest of a line.
func quoted(ref string) string {
	kind, name, _ := strings.Cut(ref, " ")
	return message.Word(kind) + " " + message.Word(name)
}

// leftovers returns the bindings and webhook configurations whose owner does not exist, sorted by namespace, kind and name.
func (w *world) leftovers() ([]Leftover, error) {
	out, err := w.leftBindings()
	for _, obj := range w.hooks {
		if owner := w.deletedOwner(obj); owner != "" {
			out = append(out, Leftover{Kind: apply.KindOf(obj), Name: obj.GetName(), Owner: owner, Remove: apply.DeleteCommand(obj)})
		}
	}
	slices.SortFunc(out, func(a, b Leftover) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return out, err
}

func (w *world) leftBindings() ([]Leftover, error) {
	if w.rbac == nil {
		return nil, nil // the notes contain the reason
	}
	roleBindings, err := w.rbac.RoleBindings.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list RoleBindings: %w", err)
	}
	clusterRoleBindings, err := w.rbac.ClusterRoleBindings.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list ClusterRoleBindings: %w", err)
	}
	var out []Leftover
	add := func(obj client.Object, ref rbacv1.RoleRef) {
		if owner := w.deletedOwner(obj); owner != "" {
			out = append(out, Leftover{Kind: apply.KindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(), Role: ref.Kind + " " + ref.Name,
				Owner: owner, Remove: apply.DeleteCommand(obj)})
		}
	}
	for _, b := range roleBindings {
		add(b, b.RoleRef)
	}
	for _, b := range clusterRoleBindings {
		add(b, b.RoleRef)
	}
	return out, nil
}

// deletedOwner returns the kind and name of the owner of an object that Remit has created, according to its labels, if the owner
// does not exist; "" otherwise.
func (w *world) deletedOwner(obj client.Object) string {
	all := obj.GetLabels()
	if all[names.LabelLineage] == "" || obj.GetAnnotations()[names.AnnotationProof] == "" {
		return ""
	}
	if all[names.LabelExtensionKind] == olmv1.KindClusterExtension {
		return w.deletedExtension(obj.GetNamespace(), all[names.LabelExtensionName])
	}
	if all[names.LabelOwnerKind] == operatorsv1alpha1.ClusterServiceVersionKind {
		return w.deletedCSV(all[names.LabelOwnerNamespace], all[names.LabelOwner])
	}
	return ""
}

// deletedExtension returns the kind and name of the ClusterExtension with an object in the namespace, if it does not exist.
func (w *world) deletedExtension(namespace, name string) string {
	exists := slices.ContainsFunc(w.extensions, func(ext olmv1.ClusterExtension) bool { return ownerutil.LabelValue(ext.Name) == name })
	if !w.hasExtensions || exists || w.requested != "" && namespace != w.requested {
		return ""
	}
	return olmv1.KindClusterExtension + " " + name
}

// deletedCSV returns the kind and name of a ClusterServiceVersion, if it does not exist.
func (w *world) deletedCSV(namespace, name string) string {
	exists := slices.ContainsFunc(w.csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool {
		return csv.Namespace == namespace && ownerutil.LabelValue(csv.Name) == name
	})
	if !w.complete || exists || w.requested != "" && namespace != w.requested {
		return ""
	}
	return operatorsv1alpha1.ClusterServiceVersionKind + " " + namespace + "/" + name
}

// writeLeftovers writes the leftovers, at most maxDangling for each namespace, as writeDangling does.
func writeLeftovers(b *bytes.Buffer, all []Leftover) {
	b.WriteString("Permissions and webhooks of operators that were deleted without them. Remit removes those that exceed the account:\n")
	shown := map[string]int{}
	for _, l := range all {
		if shown[l.Namespace]++; shown[l.Namespace] <= maxDangling {
			message.Fprintf(b, "  %s\n", l)
		}
	}
	for _, l := range all {
		if more := shown[l.Namespace] - maxDangling; more > 0 {
			message.Fprintf(b, "  and %d more: see -o yaml\n", more)
			shown[l.Namespace] = 0
		}
	}
}
