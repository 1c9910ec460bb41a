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

// Lineage is the unit of ownership: the versions of one package that are installed through the
// Subscriptions of one namespace.
type Lineage struct {
	Package   string
	Namespace string
	// Direct is set for the versions of a ClusterServiceVersion that somebody created directly, and not an InstallPlan.
	// They share nothing with the package of the same name.
	Direct bool
}

// Mark is the value of the lineage label.
func (l Lineage) Mark() string {
	if l.Direct {
		return Hash("direct", l.Package, l.Namespace)
	}
	return Hash(l.Package, l.Namespace)
}

// ComponentLabel is the key operators.coreos.com/<package>.<namespace>, its name part cut to 63
// characters (OLM v0 contract, 1.14). Catalogs may name packages as no label can be named: then it is
// the mark.
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

// Marks reports whether an object carries the label of this lineage. Anyone who can write the object can set the label,
// so it finds candidates and explains; it decides nothing.
func (l Lineage) Marks(obj metav1.Object) bool {
	return obj.GetLabels()[names.LabelLineage] == l.Mark()
}

// Stranger describes how an object without the lineage's label was recognized as such.
func (l Lineage) Stranger() string {
	return fmt.Sprintf("it does not carry the marks of package %q in namespace %q", l.Package, l.Namespace)
}

// Proofs makes and verifies proofs that Remit created an object; *proof.Keys is the implementation that programs use.
type Proofs interface {
	Sign(desired *unstructured.Unstructured, holder string, live *unstructured.Unstructured) error
	Check(obj client.Object, holder string) error
	// CheckSince is Check for an object that cannot be older than its holder.
	CheckSince(obj client.Object, holder string, since time.Time) error
}

// Owner identifies the ClusterServiceVersion for which an object is made.
type Owner struct {
	Lineage
	// CSV is the name of the ClusterServiceVersion in Lineage.Namespace.
	CSV string
	// UID is the CSV's, or "" before it exists; no owner reference is made without it.
	UID types.UID
	// Doubt says why the CSV, which carries the marks of an install, is taken for a direct one; "" otherwise. Messages
	// about what it does not own include it.
	Doubt string
	// Since is when Lineage.Namespace was created: what is older, and outside of it, was made for an earlier namespace of
	// that name, and whoever has the name now inherits nothing of it. Zero where all objects in question are in the namespace.
	Since time.Time
	// Proofs proves ownership. Without it, Owner owns nothing and cannot create anything.
	Proofs Proofs
}

const withoutProofs = "there is no key to prove ownership with"

// Owns reports whether Remit created the object for this lineage.
func (o Owner) Owns(obj client.Object) bool { return o.Check(obj) == nil }

// Check returns why the object may not be changed on behalf of this lineage; nil if it may (security model, rule 7).
func (o Owner) Check(obj client.Object) error {
	switch {
	case !o.Marks(obj) && o.Doubt != "":
		return fmt.Errorf("%s; %s", o.Stranger(), o.Doubt)
	case !o.Marks(obj):
		return errors.New(o.Stranger())
	case o.Proofs == nil:
		return errors.New(withoutProofs)
	}
	since := o.Since
	if obj.GetNamespace() == o.Namespace {
		since = time.Time{} // it went with an earlier namespace
	}
	if err := o.Proofs.CheckSince(obj, o.Mark(), since); err != nil {
		return fmt.Errorf("it carries the marks of package %q in namespace %q, but %w", o.Package, o.Namespace, err)
	}
	return nil
}

// Prove puts the proof on desired; live is the object that it changes, or nil if it is to be created.
func (o Owner) Prove(desired, live *unstructured.Unstructured) error {
	if o.Proofs == nil {
		return errors.New(withoutProofs)
	}
	return o.Proofs.Sign(desired, o.Mark(), live)
}

// Labels are the owner labels of the contract and the lineage mark.
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

// Reference is a non-blocking owner reference to the CSV. It is only meaningful on an object in the
// CSV's own namespace.
func (o Owner) Reference() metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{
		APIVersion:         "operators.coreos.com/v1alpha1",
		Kind:               "ClusterServiceVersion",
		Name:               o.CSV,
		UID:                o.UID,
		Controller:         &no,
		BlockOwnerDeletion: &no,
	}
}

// NamespaceReference is a non-blocking owner reference to a Namespace. On a cluster-scoped object, which
// cannot be owned by the CSV, it lets garbage collection take the object away with the namespace of its
// install, should nobody else do so before.
func NamespaceReference(name string, uid types.UID) metav1.OwnerReference {
	no := false
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: name, UID: uid, Controller: &no, BlockOwnerDeletion: &no}
}

// LabelValue makes a name fit for a label value: names of CSVs may be longer than 63 characters, and
// then a hash takes the place of the end.
func LabelValue(name string) string {
	if len(name) <= 63 {
		return name
	}
	return name[:46] + "-" + Hash(name)
}

// Hash is 16 characters [a-z2-7] over the parts; distinct lists of parts give distinct input.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	sum := h.Sum(nil)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10]))
}
