package ownerutil

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Lineage is the unit of ownership: the versions of one package that are installed through the Subscriptions of one namespace.
type Lineage struct {
	Package   string
	Namespace string
	// Direct is set for the versions of a ClusterServiceVersion that a user rather than an InstallPlan created. They are
	// separate from the package of the same name.
	Direct bool
}

// Mark returns the value of the lineage label.
func (l Lineage) Mark() string {
	if l.Direct {
		return Hash("direct", l.Package, l.Namespace)
	}
	return Hash(l.Package, l.Namespace)
}

// ComponentLabel returns the label key operators.coreos.com/<package>.<namespace>, with the name part truncated to 63 characters
// (OLM v0 contract, 1.14). If a package's name is not valid in a label, the mark is used instead.
func (l Lineage) ComponentLabel() string {
	name := l.Package + "." + l.Namespace
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], ".-_")
	}
	if len(content.IsLabelKey(names.LabelComponentPrefix+name)) > 0 {
		name = l.Mark()
	}
	return names.LabelComponentPrefix + name
}

// Marks reports whether an object has the label of this lineage. Anyone who can write the object can set the label, so
// that it only identifies candidates; it does not prove anything.
func (l Lineage) Marks(obj metav1.Object) bool {
	return obj.GetLabels()[names.LabelLineage] == l.Mark()
}

// NotMarked describes an object without the lineage's label.
func (l Lineage) NotMarked() string {
	return fmt.Sprintf("it does not have the lineage label of package %q in namespace %q", l.Package, l.Namespace)
}

// Proofs creates and verifies proofs that Remit created an object. *proof.Keys implements it.
type Proofs interface {
	Sign(desired *unstructured.Unstructured, holder string, live *unstructured.Unstructured) error
	Check(obj client.Object, holder string) error
	// CheckSince is like Check for an object that cannot be older than its holder.
	CheckSince(obj client.Object, holder string, since time.Time) error
}

// Owner identifies the ClusterServiceVersion that an object belongs to.
type Owner struct {
	Lineage
	// CSV is the name of the ClusterServiceVersion in Lineage.Namespace.
	CSV string
	// UID is the UID of the CSV, or "" before it exists; owner references require it.
	UID types.UID
	// Doubt describes why a CSV with the marks of an install is treated as a direct one; otherwise it is "". Messages about
	// objects that the CSV does not own include it.
	Doubt string
	// Since is the creation time of Lineage.Namespace. Older objects outside of the namespace belong to an earlier namespace of
	// the same name, which the current one does not inherit. It is zero if all objects are in the namespace.
	Since time.Time
	// Proofs verifies ownership. Without it, an Owner owns nothing and cannot create anything.
	Proofs Proofs
}

const withoutProofs = "no key is available to prove ownership"

// Owns reports whether Remit created the object for this lineage.
func (o Owner) Owns(obj client.Object) bool { return o.Check(obj) == nil }

// Check returns nil if the object can be changed on behalf of this lineage, or the reason why it cannot (security model, rule 7).
func (o Owner) Check(obj client.Object) error {
	switch {
	case !o.Marks(obj) && o.Doubt != "":
		return fmt.Errorf("%s; %s", o.NotMarked(), o.Doubt)
	case !o.Marks(obj):
		return errors.New(o.NotMarked())
	case o.Proofs == nil:
		return errors.New(withoutProofs)
	}
	since := o.Since
	if obj.GetNamespace() == o.Namespace {
		since = time.Time{} // objects in an earlier namespace were deleted with it
	}
	if err := o.Proofs.CheckSince(obj, o.Mark(), since); err != nil {
		return fmt.Errorf("it has the lineage label of package %q in namespace %q, but %w", o.Package, o.Namespace, err)
	}
	return nil
}

// Prove adds the proof to desired; live is the existing object, or nil.
func (o Owner) Prove(desired, live *unstructured.Unstructured) error {
	if o.Proofs == nil {
		return errors.New(withoutProofs)
	}
	return o.Proofs.Sign(desired, o.Mark(), live)
}

// Labels returns the owner labels of the contract and the lineage mark.
func (o Owner) Labels() map[string]string {
	return map[string]string{
		names.LabelManaged:        "true",
		names.LabelOwner:          LabelValue(o.CSV),
		names.LabelOwnerNamespace: o.Namespace,
		names.LabelOwnerKind:      "ClusterServiceVersion",
		names.LabelLineage:        o.Mark(),
		o.ComponentLabel():        "",
	}
}

// Reference returns a non-blocking owner reference to the CSV. It is valid only on objects in the CSV's namespace.
func (o Owner) Reference() metav1.OwnerReference {
	return Reference("operators.coreos.com/v1alpha1", "ClusterServiceVersion", o.CSV, o.UID)
}

// NamespaceReference returns a non-blocking owner reference to a Namespace. On a cluster-scoped object, which a CSV
// cannot own, it makes garbage collection delete the object after the namespace of its install, if it still exists.
func NamespaceReference(name string, uid types.UID) metav1.OwnerReference {
	return Reference("v1", "Namespace", name, uid)
}

// Reference returns an owner reference that does not block the deletion of its owner.
func Reference(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(false), BlockOwnerDeletion: new(false)}
}

// LabelValue turns a name into a valid label value: names longer than 63 characters are truncated and end with a hash.
func LabelValue(name string) string {
	if len(name) <= 63 {
		return name
	}
	return name[:46] + "-" + Hash(name)
}

// Hash returns 16 characters [a-z2-7]. Different lists of parts have different hash inputs. An attacker who chooses the parts
// can find two lists with the same hash in about 2^40 attempts. Use Commitment where that matters.
func Hash(parts ...string) string { return digest(10, parts) }

// Commitment returns 32 characters [a-z2-7]. It is infeasible to find two lists of parts with the same one.
func Commitment(parts ...string) string { return digest(20, parts) }

func digest(size int, parts []string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:size]))
}
