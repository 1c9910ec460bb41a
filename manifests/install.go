package manifests

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// fieldManager is the field manager of the installer, not of Remit.
	fieldManager = "remit-install"
	// pollInstall is how often the installer polls. Remit itself does not poll.
	pollInstall = 100 * time.Millisecond
)

// Args adds flags to the container of one of the Deployments.
type Args struct {
	// Deployment is one of names.ServiceAccountCatalog, ServiceAccountOLM, ServiceAccountExtension and
	// ServiceAccountPackageServer, which are also the names of the Deployments.
	Deployment string
	Args       []string
}

// Install applies a profile to a cluster as the client's user, who must be a cluster administrator, and waits until
// Remit is running. Applying it to an existing installation updates it.
func Install(ctx context.Context, c client.Client, profile string, args ...Args) error {
	objs, err := Render(profile)
	if err != nil {
		return err
	}
	if err := Apply(ctx, c, objs, args...); err != nil {
		return err
	}
	return ApplyDefaults(ctx, c, profile)
}

// ApplyDefaults applies what follows a profile unless an administrator decides otherwise: the OLMConfig and, if the cluster serves
// its kind, the policy for authors who may use any account.
func ApplyDefaults(ctx context.Context, c client.Client, profile string) error {
	config, err := RenderOLMConfig()
	if err != nil {
		return err
	}
	if err := Apply(ctx, c, config); err != nil {
		return err
	}
	return ApplyAnyAccount(ctx, c, profile)
}

// ApplyAnyAccount applies the policy for authors who may use any account, if the cluster serves its kind.
func ApplyAnyAccount(ctx context.Context, c client.Client, profile string) error {
	policy, err := RenderAnyAccount(profile)
	if err != nil {
		return err
	}
	if err := Apply(ctx, c, policy); !meta.IsNoMatchError(err) {
		return err
	}
	return nil // before Kubernetes 1.36; nothing depends on the policy (docs/adr/0077)
}

// Apply is like Install, but for objects that are already rendered, such as an overlay of a profile.
func Apply(ctx context.Context, c client.Client, objs []*unstructured.Unstructured, args ...Args) error {
	for _, obj := range objs {
		if err := withArgs(obj, args); err != nil {
			return err
		}
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(fieldManager), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("install %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	for _, obj := range objs {
		if err := ready(ctx, c, obj); err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

func withArgs(obj *unstructured.Unstructured, args []Args) error {
	var more []string
	for _, a := range args {
		if obj.GetKind() == "Deployment" && obj.GetName() == a.Deployment {
			more = append(more, a.Args...)
		}
	}
	if len(more) == 0 {
		return nil
	}
	containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) == 0 {
		return fmt.Errorf("Deployment %s has no containers", obj.GetName())
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return fmt.Errorf("Deployment %s: its container is not an object", obj.GetName())
	}
	own, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return fmt.Errorf("Deployment %s: %w", obj.GetName(), err)
	}
	if err := unstructured.SetNestedStringSlice(container, append(own, more...), "args"); err != nil {
		return err
	}
	return unstructured.SetNestedSlice(obj.Object, containers, "spec", "template", "spec", "containers")
}

// ready waits for objects that others depend on: CustomResourceDefinitions and Deployments.
func ready(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	var check func(ctx context.Context) (bool, error)
	key := client.ObjectKeyFromObject(obj)
	switch obj.GetKind() {
	case "CustomResourceDefinition":
		check = func(ctx context.Context) (bool, error) { return established(ctx, c, key) }
	case "Deployment":
		check = func(ctx context.Context) (bool, error) { return available(ctx, c, key) }
	default:
		return nil
	}
	return wait.PollUntilContextCancel(ctx, pollInstall, true, check)
}

func established(ctx context.Context, c client.Client, key client.ObjectKey) (bool, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Get(ctx, key, crd); err != nil {
		return false, err
	}
	return slices.ContainsFunc(crd.Status.Conditions, func(x apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return x.Type == apiextensionsv1.Established && x.Status == apiextensionsv1.ConditionTrue
	}), nil
}

func available(ctx context.Context, c client.Client, key client.ObjectKey) (bool, error) {
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, key, d); err != nil {
		return false, err
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want, nil
}
