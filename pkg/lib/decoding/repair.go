package decoding

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/group"
	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// maxDepth is the depth of the fields that are removed on their own. Of a field further inside, more is removed.
	maxDepth = 4
	// maxFields is the number of fields of one object that are tried on their own.
	maxFields = 100
	// maxSearched is the size of those fields of a spec or status, as JSON, in which a smaller part is searched that can be removed. Each
	// level is decoded twice, so without a limit an object of 1.4 MB took 100 times as long as one that can be decoded.
	maxSearched = 64 << 10
	// maxReason is the length of the decoder's message that is kept.
	maxReason = 500
)

// repairer changes objects so that they can be decoded as types of the scheme.
type repairer struct{ scheme *runtime.Scheme }

// repair returns an object that can be decoded.
func (r repairer) repair(raw []byte) []byte {
	out, _ := r.check(raw)
	return out
}

// check returns an object that can be decoded, and whether it differs from the given one. It does not change objects of kinds
// that the scheme does not contain.
func (r repairer) check(raw []byte) (_ []byte, changed bool) {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(raw, &kind); err != nil {
		return raw, false
	}
	k := decoder{scheme: r.scheme, kind: kind.GroupVersionKind(), typeMeta: kind}
	if !group.Own(k.kind.Group) || !r.scheme.Recognizes(k.kind) {
		return raw, false
	}
	out, err := withoutDeepFields(raw)
	if err != nil {
		return raw, false // the client reports why
	}
	reason := tooCostly(out)
	if reason == nil {
		reason = k.decode(out)
	}
	if reason == nil {
		return out, len(out) != len(raw)
	}
	if out, err = k.reduce(out, reason); err != nil {
		return raw, false
	}
	return out, true
}

// withoutDeepFields returns an object without managed fields if its metadata is nested too deep. Users may write them, and the API server
// does not compare them with a schema. Nothing else in the metadata is nested.
func withoutDeepFields(raw []byte) ([]byte, error) {
	if !budget.HasMoreLevels(raw, budget.MaxLevels) {
		return raw, nil
	}
	var fields, metadata map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if !budget.HasMoreLevels(fields["metadata"], budget.MaxLevels-1) {
		return raw, nil
	}
	if err := json.Unmarshal(fields["metadata"], &metadata); err != nil {
		return nil, err
	}
	delete(metadata, "managedFields")
	var err error
	if fields["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// errDeep is why a field is removed from an object of another kind.
var errDeep = fmt.Errorf("the object is nested more than %d levels deep", budget.MaxLevels)

// flatten returns an object of any kind without the fields that are nested too deep, and marks it if these are not only managed fields. The
// API server stores objects with as many levels as decoders accept, so that no list that contains one could be decoded. What is not an
// object is returned as it is.
func flatten(raw []byte) []byte {
	if !budget.HasMoreLevels(raw, budget.MaxLevels) {
		return raw
	}
	var fields map[string]json.RawMessage
	out, err := withoutDeepFields(raw)
	if err != nil || json.Unmarshal(out, &fields) != nil {
		return raw
	}
	if !budget.HasMoreLevels(out, budget.MaxLevels) {
		return out
	}
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return budget.HasMoreLevels(value, budget.MaxLevels-1) })
	if fields["metadata"], err = mark(fields["metadata"], errDeep); err != nil {
		return raw
	}
	if out, err = json.Marshal(fields); err != nil {
		return raw
	}
	return out
}

// tooCostly returns an error if decoding an object takes much more time or memory than its size suggests.
func tooCostly(raw []byte) error {
	return cmp.Or(budget.CheckStructures(raw), budget.CheckQuantities(raw))
}

// decoder decodes objects of one kind.
type decoder struct {
	scheme   *runtime.Scheme
	kind     schema.GroupVersionKind
	typeMeta metav1.TypeMeta
}

// decode decodes an object as clients do. Decoders of some types panic, such as that of the updateStrategy of CatalogSources.
func (d decoder) decode(raw []byte) (err error) {
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("decoder of %s: %v", d.kind.Kind, failure)
		}
	}()
	obj, err := d.scheme.New(d.kind)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, obj)
}

// reduce returns the object without the fields that cannot be decoded.
func (d decoder) reduce(raw []byte, reason error) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	incomplete, costly := d.reduceFields(fields)
	if incomplete {
		if costly != nil {
			reason = costly // rather than a text in the metadata
		}
		marked, err := mark(fields["metadata"], reason)
		if err != nil {
			return nil, err
		}
		fields["metadata"] = marked
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return out, d.decode(out)
}

// reduceFields removes what cannot be decoded from the fields of an object. It reports whether the object is incomplete without it,
// and the quantity because of which it is, if any.
func (d decoder) reduceFields(fields map[string]json.RawMessage) (incomplete bool, costly error) {
	left := &search{fields: maxFields, bytes: maxSearched}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "apiVersion" || name == "kind" || name == "metadata" { // the API server decodes these of every object
			continue
		}
		value := fields[name]
		kept := d.keep([]string{name}, value, left)
		if fields[name] = kept; kept == nil {
			delete(fields, name)
		}
		if name == "status" || bytes.Equal(kept, value) || d.isMeaningless(value, kept) {
			continue
		}
		incomplete, costly = true, cmp.Or(costly, tooCostly(value))
	}
	return incomplete, costly
}

// search is what may still be tried of one object, so that an object that cannot be decoded takes only a few times as long as another.
type search struct{ fields, bytes int }

// enter returns the fields of the value at a path, or nil if they cannot be tried on their own.
func (s *search) enter(path []string, value json.RawMessage) map[string]json.RawMessage {
	if len(path) == maxDepth || len(path) > 1 && len(value) > s.bytes {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(value, &fields) != nil || len(fields) > s.fields {
		return nil
	}
	s.fields -= len(fields)
	if len(path) > 1 {
		s.bytes -= len(value)
	}
	return fields
}

// keep returns what can be decoded of the field at a path, or nil if nothing can be.
func (d decoder) keep(path []string, value json.RawMessage, left *search) json.RawMessage {
	if d.decodes(path, value) {
		return value
	}
	fields := left.enter(path, value)
	if fields == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // the order determines what is kept
		kept := d.keep(append(path[:len(path):len(path)], name), fields[name], left)
		if fields[name] = kept; kept == nil {
			delete(fields, name)
		}
	}
	out, err := json.Marshal(fields)
	if err != nil || !d.decodes(path, out) {
		return nil
	}
	return out
}

// decodes reports whether an object that has only the field at the path can be decoded. It does not encode the value, which is JSON.
func (d decoder) decodes(path []string, value json.RawMessage) bool {
	raw, err := json.Marshal(d.typeMeta)
	if err != nil {
		return false
	}
	raw = append(slices.Grow(raw[:len(raw)-1], len(value)), ',')
	for i, name := range path {
		quoted, err := json.Marshal(name)
		if err != nil {
			return false
		}
		raw = append(append(raw, "{"[:min(i, 1)]...), quoted...)
		raw = append(raw, ':')
	}
	raw = append(append(raw, value...), strings.Repeat("}", len(path))...)
	return tooCostly(raw) == nil && d.decode(raw) == nil
}

// isMeaningless reports whether only a field without a meaning was removed: the updateStrategy of a CatalogSource cannot be
// decoded if it does not contain how often to poll.
func (d decoder) isMeaningless(before, after json.RawMessage) bool {
	if d.kind.GroupKind() != operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind).GroupKind() {
		return false
	}
	var was, is map[string]json.RawMessage
	if json.Unmarshal(before, &was) != nil || json.Unmarshal(after, &is) != nil {
		return false
	}
	if _, kept := is["updateStrategy"]; kept {
		return false
	}
	delete(was, "updateStrategy")
	return maps.EqualFunc(was, is, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// mark adds the annotation that budget.Refused reads.
func mark(metadata json.RawMessage, reason error) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	annotations := map[string]string{}
	if err := json.Unmarshal(metadata, &fields); err != nil {
		return nil, err
	}
	if existing := fields["annotations"]; existing != nil {
		if err := json.Unmarshal(existing, &annotations); err != nil {
			return nil, err
		}
	}
	text := reason.Error()
	annotations[names.AnnotationUndecodable] = strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
	var err error
	if fields["annotations"], err = json.Marshal(annotations); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}
