package adopt

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// managersOfOLM returns the field managers of OLM's programs: the names of the programs, and the field managers that they set
// for some requests.
func managersOfOLM() sets.Set[string] {
	return sets.New("olm", "catalog", "olm.install", "operator-lifecycle-manager", "olm-ownership-labeller")
}

// managerOf returns Remit's field manager for an install.
func managerOf(owner ownerutil.Owner) string { return apply.Manager(owner.Labels()) }

// transferred transfers the fields that OLM manages to the install's field manager, as if that manager had applied them. It
// returns the new managedFields entries, and the entries of OLM that they replace. The fields that the adoption itself adds,
// which the install's field manager updates without apply, are included. Without this transfer, the next version could not change
// a field that OLM has set. The entries of all other managers, and those for the status, do not change.
func transferred(have []metav1.ManagedFieldsEntry, manager string) (want, moved []metav1.ManagedFieldsEntry) {
	var union fieldpath.Set
	version := ""
	for _, f := range have {
		isOLM := managersOfOLM().Has(f.Manager)
		isOwn := f.Manager == manager
		var set fieldpath.Set
		if f.Subresource != "" || !isOLM && !isOwn || f.FieldsV1 == nil || set.FromJSON(bytes.NewReader(f.FieldsV1.GetRawBytes())) != nil ||
			version != "" && f.APIVersion != version {
			want = append(want, f)
			continue
		}
		version = f.APIVersion
		union = *union.Union(&set)
		if !isOwn || f.Operation != metav1.ManagedFieldsOperationApply {
			moved = append(moved, f)
		}
	}
	if len(moved) == 0 {
		return have, nil
	}
	fields, err := union.ToJSON()
	if err != nil {
		return have, nil
	}
	raw := &metav1.FieldsV1{}
	raw.SetRawBytes(fields)
	want = append(want, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, Time: moved[0].Time, FieldsType: "FieldsV1", FieldsV1: raw,
	})
	return want, slices.DeleteFunc(moved, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == manager })
}

// returned reverses transferred: it replaces the fields of the install's manager with the entries that transferred replaced.
func returned(have []metav1.ManagedFieldsEntry, manager string, moved []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := slices.DeleteFunc(slices.Clone(have), func(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "" && f.Manager == manager })
	return append(out, moved...)
}
