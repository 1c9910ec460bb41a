package rbac

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/message"
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
func (o *Options) print(warning message.Text, objects []*unstructured.Unstructured) error {
	plain := make([]map[string]any, 0, len(objects))
	for _, obj := range objects {
		plain = append(plain, obj.Object)
	}
	var text message.Text
	var err error
	switch o.Format {
	case formatYAML:
		if text, err = message.Documents(plain...); err == nil && warning != "" {
			text = message.Lines(message.Sprintf("# %s", warning), text)
		}
	case formatJSON:
		if warning != "" {
			message.Fprintln(o.ErrOut, "warning:", warning)
		}
		text, err = message.JSON(map[string]any{"apiVersion": "v1", "kind": "List", "items": plain})
	default:
		err = fmt.Errorf("output %q: must be %s or %s", o.Format, formatYAML, formatJSON)
	}
	if err != nil {
		return err
	}
	_, err = message.Fprintf(o.Out, "%s", text)
	return err
}
