package adopt

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
)

const (
	// recordPrefix, followed by a namespace, is the name of the ConfigMap that records the adoption of the
	// namespace. The ConfigMap is in Remit's namespace because it must be trusted: undo restores the values
	// in it.
	recordPrefix = "remit-adopted-"
	// recordKey is the entry of the ConfigMap with the compressed record.
	recordKey = "record.json.gz"
	// recordLabel marks the records.
	recordLabel = names.PrefixOwn + "adopted"
	// maxRecord limits the size of a record in bytes. The API server allows about 1.5 MB; a record of 1,000
	// objects is about 100 KB long.
	maxRecord = 1 << 20
	// maxContent limits the size of a decompressed record in bytes.
	maxContent = 64 << 20
)

// record contains what undo needs to restore the objects of one namespace.
type record struct {
	Namespace string           `json:"namespace"`
	Objects   []recordedObject `json:"objects"`
	// known contains the identities of the objects.
	known map[identity]bool
}

type identity struct {
	kind, namespace, name string
	uid                   types.UID
}

// recordedObject contains the parts of an object that the adoption changes, as they were before.
type recordedObject struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	// For is the ClusterServiceVersion to which the object belongs.
	For string `json:"for,omitempty"`
	// Manager is the field manager to which OLM's fields were moved; "" if none were moved.
	Manager string `json:"manager,omitempty"`
	// Labels and Annotations contain the changes that the adoption makes.
	Labels      map[string]change `json:"labels,omitempty"`
	Annotations map[string]change `json:"annotations,omitempty"`
	// ManagedFields contains the entries that the adoption replaces.
	ManagedFields []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
}

// change contains a value before and after the adoption; nil means that there is none.
type change struct {
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
}

// reference returns an object with the recorded kind and name.
func (r recordedObject) reference() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: r.APIVersion, Kind: r.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name},
	}
}

// load reads a record and its ConfigMap. If there is none, it returns an empty record and a ConfigMap to
// create.
func load(ctx context.Context, c client.Client, home, namespace string) (*record, *corev1.ConfigMap, error) {
	r := &record{Namespace: namespace}
	cm := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: home, Name: recordPrefix + namespace}, cm)
	if apierrors.IsNotFound(err) {
		cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: recordPrefix + namespace, Labels: map[string]string{recordLabel: "true"}}}
		return r, cm, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("get ConfigMap %s/%s: %w", home, recordPrefix+namespace, err)
	}
	return r, cm, r.decode(cm.BinaryData[recordKey])
}

func (r *record) decode(data []byte) error {
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read the record of namespace %s: %w", r.Namespace, err)
	}
	text, err := io.ReadAll(io.LimitReader(zip, maxContent))
	if err != nil {
		return fmt.Errorf("read the record of namespace %s: %w", r.Namespace, err)
	}
	return json.Unmarshal(text, r)
}

// add records an object unless it is already recorded: only the first record describes the object before the
// adoption.
func (r *record) add(obj recordedObject) {
	if !r.has(obj) {
		r.Objects = append(r.Objects, obj)
		r.known[obj.identity()] = true
	}
}

// has reports whether an object is already recorded.
func (r *record) has(obj recordedObject) bool {
	if r.known == nil {
		r.known = map[identity]bool{}
		for _, o := range r.Objects {
			r.known[o.identity()] = true
		}
	}
	return r.known[obj.identity()]
}

func (r recordedObject) identity() identity { return identity{r.Kind, r.Namespace, r.Name, r.UID} }

// encode returns the compressed record, and its size before it was compressed.
func encode(r *record) (size int, data []byte, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return 0, nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := zip.Write(text); err != nil {
		return 0, nil, err
	}
	if err := zip.Close(); err != nil {
		return 0, nil, err
	}
	return len(text), out.Bytes(), nil
}

// store writes the record, before the first object is changed.
func (r *record) store(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
	size, data, err := encode(r)
	if err != nil {
		return err
	}
	if len(data) > maxRecord || size > maxContent {
		return fmt.Errorf("the record of %d objects is %d bytes long, and %d when compressed; at most %d and %d are supported", len(r.Objects), size, len(data), maxContent, maxRecord)
	}
	before := maps.Clone(cm.BinaryData)
	cm.BinaryData = map[string][]byte{recordKey: data}
	if cm.ResourceVersion == "" {
		err = c.Create(ctx, cm, client.FieldOwner(fieldManager))
	} else if !bytes.Equal(before[recordKey], data) {
		err = c.Update(ctx, cm, client.FieldOwner(fieldManager))
	}
	if err != nil {
		return fmt.Errorf("store the record in ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	return nil
}
