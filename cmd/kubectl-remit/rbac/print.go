package rbac

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
)

// Output formats; kubectl apply reads both.
const (
	formatYAML = "yaml"
	formatJSON = "json"
)

// objects returns the objects to print, in an order in which they can be applied.
func (o *Options) objects(account types.NamespacedName, report preflight.Report) ([]*unstructured.Unstructured, error) {
	var first []client.Object
	if o.WithAccount {
		first = accountObjects(account, o.RemitNamespace)
	}
	return objectsOf(first, report)
}

// objectsOf returns the given objects and the objects of the report's grant.
func objectsOf(first []client.Object, report preflight.Report) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, obj := range append(first, report.Objects()...) {
		u, err := apply.Object(obj)
		if err != nil {
			return nil, err
		}
		delete(u.Object, "spec") // omit the empty spec of a Namespace
		out = append(out, u)
	}
	return out, nil
}

func accountObjects(account types.NamespacedName, remitNamespace string) []client.Object {
	return append([]client.Object{namespaceObject(account.Namespace), accountObject(account)}, scoped.Enrollment(account, remitNamespace)...)
}

func typed(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }

func namespaceObject(name string) client.Object {
	return &corev1.Namespace{TypeMeta: typed("Namespace"), ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func accountObject(key types.NamespacedName) client.Object {
	return &corev1.ServiceAccount{TypeMeta: typed("ServiceAccount"), ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// print writes the warning, if any, and the objects.
func (o *Options) print(warning string, objects []*unstructured.Unstructured) error {
	var text bytes.Buffer
	switch o.Format {
	case formatYAML:
		if warning != "" {
			text.WriteString("# " + warning + "\n")
		}
		for _, obj := range objects {
			doc, err := yaml.Marshal(obj.Object)
			if err != nil {
				return fmt.Errorf("encode: %w", err)
			}
			text.WriteString("---\n")
			text.Write(doc)
		}
	case formatJSON:
		if warning != "" {
			fmt.Fprintln(o.ErrOut, "warning:", warning)
		}
		items := make([]any, 0, len(objects))
		for _, obj := range objects {
			items = append(items, obj.Object)
		}
		doc, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "  ")
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		text.Write(append(doc, '\n'))
	default:
		return fmt.Errorf("output %q: must be %s or %s", o.Format, formatYAML, formatJSON)
	}
	_, err := o.Out.Write(text.Bytes())
	return err
}
