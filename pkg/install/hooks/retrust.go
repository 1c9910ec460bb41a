package hooks

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
)

// retrust changes the caBundle in those parts of a live object that refer to the Deployment's Service. It does not
// change other parts, which may belong to the previous or the next version.
func (i Installer) retrust(ctx context.Context, p *Plan, obj client.Object, name string, bundle []byte) error {
	live, desired, err := Editable(ctx, i.Account, obj)
	if err != nil || live == nil {
		return err
	}
	service := p.service(name)
	encoded := base64.StdEncoding.EncodeToString(bundle)
	if spec, ok := desired.Object["spec"].(map[string]any); ok {
		spec["caBundle"] = encoded
	}
	webhooks, _ := desired.Object["webhooks"].([]any)
	for _, w := range webhooks {
		config, _, err := unstructured.NestedMap(w.(map[string]any), "clientConfig")
		if err != nil {
			return fmt.Errorf("%s: %w", apply.Describe(desired), err)
		}
		namespace, _, _ := unstructured.NestedString(config, "service", "namespace")
		if at, _, _ := unstructured.NestedString(config, "service", "name"); namespace == service.Namespace && at == service.Name {
			config["caBundle"] = encoded
			w.(map[string]any)["clientConfig"] = config
		}
	}
	_, _, err = apply.From(ctx, i.Account, live, desired, p.in.Owner)
	return err
}

// Editable reads a webhook configuration or APIService, and returns it together with an object that applies the same
// content. A caller edits the second one to change only a part of the first one. Both are nil if there is no such object.
func Editable(ctx context.Context, r client.Reader, obj client.Object) (live, desired *unstructured.Unstructured, err error) {
	desired = reference(obj)
	if live, err = apply.Live(ctx, r, desired); err != nil || live == nil {
		return nil, nil, err
	}
	desired.SetLabels(live.GetLabels())
	desired.SetAnnotations(live.GetAnnotations())
	desired.SetOwnerReferences(live.GetOwnerReferences())
	for _, field := range []string{"webhooks", "spec"} {
		if value, ok := live.Object[field]; ok {
			desired.Object[field] = runtime.DeepCopyJSONValue(value)
		}
	}
	return live, desired, nil
}
