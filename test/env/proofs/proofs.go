// Package proofs provides tests with keys for the proofs on installed objects.
package proofs

import (
	"bytes"
	"sync"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/proof"
)

// Scheme returns a scheme with the kinds that installs create, and Operators.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme,
		olmv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}

// known returns the scheme that Keys and Mark use. Callers must not change it.
var known = sync.OnceValue(Scheme)

// Keys returns the same keys on each call, so a test can call it wherever it needs them.
func Keys() *proof.Keys {
	keys, err := proof.New(proof.Options{Scheme: known(), Secret: types.NamespacedName{Namespace: "remit", Name: names.SecretProof}},
		map[string][]byte{"key-1": bytes.Repeat([]byte("k"), 32)})
	if err != nil {
		panic(err)
	}
	return keys
}

// Mark adds the owner's labels and proof to an object, as if the owner's install had created it. If the object has no
// creation time, Mark sets it to the current time.
func Mark(obj client.Object, owner ownerutil.Owner) {
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(metav1.Now())
	}
	gvk, err := apiutil.GVKForObject(obj, known())
	if err != nil {
		panic(err)
	}
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for k, v := range owner.Labels() {
		labels[k] = v
	}
	obj.SetLabels(labels)
	stand := &unstructured.Unstructured{}
	stand.SetGroupVersionKind(gvk)
	stand.SetNamespace(obj.GetNamespace())
	stand.SetName(obj.GetName())
	stand.SetCreationTimestamp(obj.GetCreationTimestamp())
	if err := owner.Prove(stand, stand.DeepCopy()); err != nil {
		panic(err)
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationProof] = stand.GetAnnotations()[names.AnnotationProof]
	obj.SetAnnotations(annotations)
}
