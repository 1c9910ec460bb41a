package ownerutil

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

// Lineage is the unit of ownership: the versions of one package that are installed through the Subscriptions of one namespace,
// or through one ClusterExtension.
type Lineage struct {
	Package string
	// Namespace is the namespace of the Subscriptions, or the one in which a ClusterExtension installs namespaced objects.
	Namespace string
	// Extension is the name of the ClusterExtension; "" for Subscriptions.
	Extension string
	// Direct is true for a ClusterServiceVersion that was created by a user rather than by an InstallPlan. Such a
	// ClusterServiceVersion does not belong to the lineage of the package with the same name.
	Direct bool
}

// DirectLineage returns the lineage of a ClusterServiceVersion that a user created directly and that has not inherited
// another lineage. All such ClusterServiceVersions in a namespace whose names differ only in the version share one lineage.
func DirectLineage(csv, namespace string) Lineage {
	if i := strings.Index(csv, ".v"); i > 0 {
		csv = csv[:i]
	}
	return Lineage{Package: csv, Namespace: namespace, Direct: true}
}

// Mark returns the value of the lineage label. Nobody can find another lineage with the same mark.
func (l Lineage) Mark() string {
	switch {
	case l.Extension != "":
		return Commitment("extension", l.Extension, "") // three parts, so that the mark differs from that of every package in a namespace
	case l.Direct:
		return Commitment("direct", l.Package, l.Namespace)
	}
	return Commitment(l.Package, l.Namespace)
}

// ShortMark returns the first half of the mark: the mark of objects that were last written before marks had their full length,
// and the key of indexes of marks (docs/adr/0070).
func (l Lineage) ShortMark() string { return names.ShortMark(l.Mark()) }

// IsMark reports whether a lineage label is the mark of this lineage, in full or as on older objects.
func (l Lineage) IsMark(label string) bool { return IsMark(label, l.Mark()) }

// Marked selects objects with the label of this lineage, in full or as on older objects.
func (l Lineage) Marked() client.ListOption { return Marked(l.Mark()) }

// IsMark reports whether a lineage label is the mark, in full or as on older objects.
func IsMark(label, mark string) bool {
	return label == mark || label != "" && label == names.ShortMark(mark)
}

// Marked selects objects with the mark, in full or as on older objects.
func Marked(mark string) client.ListOption {
	values := []string{mark, names.ShortMark(mark)}
	requirement, err := labels.NewRequirement(names.LabelLineage, selection.In, values)
	if err != nil { // unreachable: marks are valid label values
		return client.MatchingLabels{names.LabelLineage: mark}
	}
	return client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}
}

// String describes the lineage in messages.
func (l Lineage) String() string {
	if l.Extension != "" {
		return fmt.Sprintf("ClusterExtension %q", l.Extension)
	}
	return fmt.Sprintf("package %q in namespace %q", l.Package, l.Namespace)
}

// ComponentLabel returns the label key operators.coreos.com/<package>.<namespace>, with the name part truncated to 63
// characters (OLM v0 contract). If the result is not a valid label key, the name part is the lineage's mark
// instead.
func (l Lineage) ComponentLabel() string {
	name := l.Package + "." + l.Namespace
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], ".-_")
	}
	if len(content.IsLabelKey(names.LabelComponentPrefix+name)) > 0 {
		name = l.ShortMark()
	}
	return names.LabelComponentPrefix + name
}

// Marks reports whether an object has the label of this lineage. Anyone who can write the object can set the label, so
// the label does not prove ownership.
func (l Lineage) Marks(obj metav1.Object) bool {
	return l.IsMark(obj.GetLabels()[names.LabelLineage])
}

// NotMarked returns the reason to report for an object without the lineage's label.
func (l Lineage) NotMarked() string {
	return fmt.Sprintf("it does not have the lineage label of %s", l)
}

// Proofs creates and verifies proofs that Remit created an object for a holder. In this package, the holder is the mark
// of a lineage. *proof.Keys implements it.
type Proofs interface {
	Sign(desired *unstructured.Unstructured, holder string, live *unstructured.Unstructured) error
	Check(obj client.Object, holder string) error
	// CheckSince is like Check, but also rejects objects that were created before the time "since", because
	// the holder did not exist yet at that time.
	CheckSince(obj client.Object, holder string, since time.Time) error
}

// Owner identifies the ClusterServiceVersion to which an object belongs. If Lineage.Extension is set, the object belongs to
// that ClusterExtension: the ClusterServiceVersion of its bundle does not exist in the cluster.
type Owner struct {
	Lineage
	// CSV is the name of the ClusterServiceVersion in Lineage.Namespace, or of the ClusterExtension's bundle.
	CSV string
	// UID is the UID of the CSV or ClusterExtension, or "" before the CSV exists. Owner references require it.
	UID types.UID
	// Doubt explains why a CSV with the marks of an install is treated as a direct one; "" for all other CSVs. It is
	// included in messages about objects that the CSV does not own.
	Doubt string
	// Since is the creation time of Lineage.Namespace or of the ClusterExtension. Older objects were created for an earlier one
	// with the same name and are not owned. Objects of a CSV in Lineage.Namespace are exempt, because they are deleted with the
	// namespace; Since is zero if all objects are there. CustomResourceDefinitions that were kept when an earlier
	// ClusterExtension was deleted are also exempt.
	Since time.Time
	// Proofs verifies ownership. If it is nil, the Owner owns no objects and Prove fails.
	Proofs Proofs
}

var crdKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition").GroupKind()

const withoutProofs = "no key is available to prove ownership"

// Owns reports whether Remit created the object for this lineage.
func (o Owner) Owns(obj client.Object) bool { return o.Check(obj) == nil }

// Check returns nil if the object may be changed on behalf of this lineage, or the reason why not (security model,
// rule 7).
func (o Owner) Check(obj client.Object) error {
	switch {
	case !o.Marks(obj) && o.Doubt != "":
		return fmt.Errorf("%s; %s", o.NotMarked(), o.Doubt)
	case !o.Marks(obj):
		return errors.New(o.NotMarked() + o.labelsOfOLM(obj))
	case o.Proofs == nil:
		return errors.New(withoutProofs)
	}
	since := o.Since
	switch {
	case o.Extension == "" && obj.GetNamespace() == o.Namespace:
		since = time.Time{} // objects in an earlier namespace were deleted with that namespace
	case o.Extension != "" && o.isKept(obj):
		since = time.Time{}
	}
	// The label is the holder of the proof: it is one of the two marks of the lineage.
	if err := o.Proofs.CheckSince(obj, obj.GetLabels()[names.LabelLineage], since); err != nil {
		return fmt.Errorf("it has the lineage label of %s, but %w", o.Lineage, err)
	}
	return nil
}

// labelsOfOLM explains why OLM's owner labels on an object without a lineage label do not make the object part of an install; ""
// if the object has no such labels. It names a ClusterServiceVersion only if it is in the owner's namespace, which the reader is
// allowed to see.
func (o Owner) labelsOfOLM(obj metav1.Object) string {
	all := obj.GetLabels()
	if o.Extension != "" || all[names.LabelLineage] != "" || all[names.LabelOwner] == "" || all[names.LabelOwnerNamespace] != o.Namespace {
		return ""
	}
	return fmt.Sprintf("; its label %s names ClusterServiceVersion %s, but labels do not prove which install created an object", names.LabelOwner, all[names.LabelOwner])
}

// Shares reports whether the installs of several ClusterServiceVersions in the owner's namespace use the object: a ServiceAccount
// that Remit created there for another lineage. All of them are bounded by the same account. The object's labels only
// suggest the lineage; its proof decides. ServiceAccounts of ClusterExtensions are never shared.
func (o Owner) Shares(obj client.Object) bool {
	if o.Extension != "" || o.Proofs == nil || obj.GetNamespace() != o.Namespace || o.Marks(obj) || !isServiceAccount(obj) {
		return false
	}
	_, ok := OwnerIn(obj, o.Namespace, time.Time{}, o.Proofs)
	return ok
}

// IsProven reports whether Remit created an object for the lineage in its label, whichever that is.
func IsProven(obj client.Object, proofs Proofs) bool {
	mark := obj.GetLabels()[names.LabelLineage]
	return mark != "" && proofs.Check(obj, mark) == nil
}

// maxCandidates is the number of lineages for which OwnerIn looks for a proof. Remit's own objects have one component label.
const maxCandidates = 20

// OwnerIn returns the owner for which Remit created an object, if the owner is a ClusterServiceVersion in the namespace.
// The object's labels only suggest the owner; the proof for its lineage decides. since is the creation time of the
// namespace.
func OwnerIn(obj client.Object, namespace string, since time.Time, proofs Proofs) (Owner, bool) {
	candidates := 0
	for key := range obj.GetLabels() {
		name, ok := strings.CutPrefix(key, names.LabelComponentPrefix)
		pkg, here := strings.CutSuffix(name, "."+namespace)
		if !ok || !here {
			continue
		}
		if candidates++; candidates > maxCandidates {
			break
		}
		for _, direct := range []bool{false, true} {
			o := Owner{Lineage: Lineage{Package: pkg, Namespace: namespace, Direct: direct}, Since: since, Proofs: proofs}
			if o.Owns(obj) {
				return o, true
			}
		}
	}
	return Owner{}, false
}

func isServiceAccount(obj client.Object) bool {
	_, isTyped := obj.(*corev1.ServiceAccount)
	return isTyped || obj.GetObjectKind().GroupVersionKind().GroupKind() == corev1.SchemeGroupVersion.WithKind("ServiceAccount").GroupKind()
}

// isKept reports whether an object is a CustomResourceDefinition that no other ClusterExtension owns. It may have been kept when
// an earlier ClusterExtension with the same name was deleted. Ignoring its age is safe: users who create a ClusterExtension must
// be allowed to use the identity of that name, and the identity needs permission to change the CustomResourceDefinition.
func (o Owner) isKept(obj client.Object) bool {
	if _, isTyped := obj.(*apiextensionsv1.CustomResourceDefinition); !isTyped && obj.GetObjectKind().GroupVersionKind().GroupKind() != crdKind {
		return false
	}
	return !slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		mine := o.Reference()
		return ref.Kind == mine.Kind && ref.APIVersion == mine.APIVersion && ref.UID != mine.UID
	})
}

// Prove adds a proof of ownership to desired. live is the existing object, or nil if there is none.
func (o Owner) Prove(desired, live *unstructured.Unstructured) error {
	if o.Proofs == nil {
		return errors.New(withoutProofs)
	}
	return o.Proofs.Sign(desired, o.Mark(), live)
}

// Labels returns the owner labels of the contract and the lineage mark. Objects of a ClusterExtension have the labels of OLM
// v1 instead of those of the contract, so that nothing treats them as objects of a CSV.
func (o Owner) Labels() map[string]string {
	if o.Extension != "" {
		return map[string]string{
			names.LabelExtensionKind: "ClusterExtension",
			names.LabelExtensionName: LabelValue(o.Extension),
			names.LabelLineage:       o.Mark(),
		}
	}
	return map[string]string{
		names.LabelManaged:        "true",
		names.LabelOwner:          LabelValue(o.CSV),
		names.LabelOwnerNamespace: o.Namespace,
		names.LabelOwnerKind:      "ClusterServiceVersion",
		names.LabelLineage:        o.Mark(),
		o.ComponentLabel():        "",
	}
}

// GrantHash identifies what a Role and its binding, with which the owner grants permissions to a ServiceAccount of its namespace, are
// created for. It is the last part of their names. scope is the namespace in which they are created, and rules are the Role's
// rules as JSON.
func (o Owner) GrantHash(serviceAccount, scope string, rules []byte) string {
	identity := o.CSV
	if o.Extension != "" {
		identity = o.Describe()
	}
	return Hash(o.Namespace, identity, serviceAccount, scope, string(rules))
}

// Describe returns the kind and name of the owner.
func (o Owner) Describe() string {
	if o.Extension != "" {
		return "ClusterExtension " + o.Extension
	}
	return "ClusterServiceVersion " + o.Namespace + "/" + o.CSV
}

// Reference returns a non-blocking owner reference to the CSV or ClusterExtension. A reference to a CSV is valid only on
// objects in the CSV's namespace.
func (o Owner) Reference() metav1.OwnerReference {
	if o.Extension != "" {
		return Reference("olm.operatorframework.io/v1", "ClusterExtension", o.Extension, o.UID)
	}
	return Reference("operators.coreos.com/v1alpha1", "ClusterServiceVersion", o.CSV, o.UID)
}

// Outside returns the owner references of an object that is cluster-scoped or in another namespace: one to the
// ClusterExtension or, for a CSV, to its namespace. There is none if the UID is not known.
func (o Owner) Outside(namespace types.UID) []metav1.OwnerReference {
	switch {
	case o.Extension != "" && o.UID != "":
		return []metav1.OwnerReference{o.Reference()}
	case o.Extension == "" && namespace != "":
		return []metav1.OwnerReference{NamespaceReference(o.Namespace, namespace)}
	}
	return nil
}

// NamespaceReference returns a non-blocking owner reference to a Namespace. A CSV cannot own a cluster-scoped object.
// With this reference, the garbage collector deletes such an object after the namespace of its install is deleted.
func NamespaceReference(name string, uid types.UID) metav1.OwnerReference {
	return Reference("v1", "Namespace", name, uid)
}

// Reference returns an owner reference that does not block the deletion of its owner.
func Reference(apiVersion, kind, name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(false), BlockOwnerDeletion: new(false)}
}

// LabelValue shortens a name to the 63 characters that a label value may have: longer names are truncated and end with
// a hash.
func LabelValue(name string) string {
	if len(name) <= 63 {
		return name
	}
	return name[:46] + "-" + Hash(name)
}

// Hash returns a hash of the parts with 16 characters [a-z2-7]. An attacker who chooses the parts can find two lists
// with the same hash in about 2^40 attempts. Use Commitment where that matters.
func Hash(parts ...string) string { return digest(10, parts) }

// Commitment returns a hash of the parts with 32 characters [a-z2-7]. It is infeasible to find two lists of parts with
// the same Commitment.
func Commitment(parts ...string) string { return digest(20, parts) }

func digest(size int, parts []string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:size]))
}
