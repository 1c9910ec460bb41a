package kit

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Report is the ConfigMap with the preflight report of an object, which owns the ConfigMap (docs/adr/0007).
type Report struct {
	Namespace, Name string
	Owner           metav1.OwnerReference
	Files           map[string]string
	Proofs          ownerutil.Proofs
}

// Object returns the ConfigMap.
func (r Report) Object() *unstructured.Unstructured {
	data := map[string]any{}
	for name, text := range r.Files {
		data[name] = text
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	obj.SetAPIVersion("v1")
	obj.SetKind("ConfigMap")
	obj.SetNamespace(r.Namespace)
	obj.SetName(r.Name)
	obj.SetOwnerReferences([]metav1.OwnerReference{r.Owner})
	return obj
}

// Write applies the ConfigMap. It fails with an apply.CollisionError if another client created it.
func (r Report) Write(ctx context.Context, live client.Reader, c client.Client) error {
	desired := r.Object()
	existing, err := apply.Live(ctx, live, desired)
	if err != nil {
		return err
	}
	_, _, err = apply.From(ctx, c, existing, desired, r)
	return err
}

func (r Report) holder() string { return r.Owner.Kind + "/" + string(r.Owner.UID) }

// Check implements apply.Owner.
func (r Report) Check(live client.Object) error {
	owns := func(ref metav1.OwnerReference) bool { return ref.UID == r.Owner.UID }
	if !slices.ContainsFunc(live.GetOwnerReferences(), owns) {
		return fmt.Errorf("it does not belong to %s %q", r.Owner.Kind, r.Owner.Name)
	}
	return r.Proofs.Check(live, r.holder())
}

// Prove implements apply.Owner.
func (r Report) Prove(desired, live *unstructured.Unstructured) error {
	return r.Proofs.Sign(desired, r.holder(), live)
}
