package ownerutil

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Lineage is the unit of ownership: the versions of one package that are installed through the
// Subscriptions of one namespace.
type Lineage struct {
	Package   string
	Namespace string
}

// Mark is the value of the lineage label.
func (l Lineage) Mark() string { return Hash(l.Package, l.Namespace) }

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

// Owns says whether an object carries the marks of this lineage.
func (l Lineage) Owns(obj metav1.Object) bool {
	return obj.GetLabels()[names.LabelLineage] == l.Mark()
}

// Stranger says, of an object that the lineage does not own, how it was recognised.
func (l Lineage) Stranger() string {
	return fmt.Sprintf("it does not carry the marks of package %q in namespace %q", l.Package, l.Namespace)
}

// Owner identifies the ClusterServiceVersion for which an object is made.
type Owner struct {
	Lineage
	// CSV is the name of the ClusterServiceVersion in Lineage.Namespace.
	CSV string
	// UID is the CSV's, or "" before it exists; no owner reference is made without it.
	UID types.UID
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
