package author

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/manifests"
	policies "github.com/remit-olm/remit/manifests/policy"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// extensionDefinition returns a CustomResourceDefinition of ClusterExtensions that accepts any spec, so that the policy is
// tested without the limits of the API's schema.
func extensionDefinition() *apiextensionsv1.CustomResourceDefinition {
	crd := env.CRD("clusterextensions", "olm.operatorframework.io", "ClusterExtension")
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	return crd
}

// addAnySchema installs a CustomResourceDefinition of ClusterExtensions that accepts any spec.
func addAnySchema(ctx context.Context, c client.Client) error {
	crd := extensionDefinition()
	if err := c.Create(ctx, crd); err != nil {
		return fmt.Errorf("create CustomResourceDefinition: %w", err)
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, err
	})
}

// addExtensions installs the API and the policies of ClusterExtensions. The profile compat gets the schema of the API, and the
// profile bounded one that accepts any spec.
func addExtensions(ctx context.Context, profile string) error {
	c := clusters[profile].Client
	if profile == manifests.ProfileBounded {
		if err := addAnySchema(ctx, c); err != nil {
			return err
		}
	} else {
		objs, err := manifests.ExtensionCRDs()
		if err != nil {
			return err
		}
		if err := manifests.Apply(ctx, c, objs); err != nil {
			return err
		}
	}
	all, err := policies.Of(policies.Installation{Namespace: names.DefaultNamespace, Extensions: true})
	if err != nil {
		return err
	}
	for _, p := range all.Policies {
		if err := client.IgnoreAlreadyExists(c.Create(ctx, p)); err != nil {
			return err
		}
	}
	for _, b := range all.Bindings {
		if err := client.IgnoreAlreadyExists(c.Create(ctx, b)); err != nil {
			return err
		}
	}
	return nil
}
