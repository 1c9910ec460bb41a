package author

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// addExtensions installs the API and the policies of ClusterExtensions, and waits until the API server enforces them. The profile
// compat gets the schema of the API, and the profile bounded one that accepts any spec.
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
	return awaitExtensionPolicies(ctx, clusters[profile])
}

// awaitExtensionPolicies waits until the API server enforces the policies, which it does up to a second after they are created.
func awaitExtensionPolicies(ctx context.Context, c *env.Cluster) error {
	const user = "policy-probe"
	meta := metav1.ObjectMeta{Name: user}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: only(extensionRule([]string{"clusterextensions"}, "", "create"))}
	if err := c.Client.Create(ctx, role); err != nil {
		return err
	}
	subject := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}
	if err := c.Client.Create(ctx, binding); err != nil {
		return err
	}
	config := c.Config()
	config.Impersonate.UserName = user
	unprivileged, err := client.New(config, client.Options{Scheme: c.Client.Scheme()})
	if err != nil {
		return err
	}
	site := &extensionSite{namespace: metav1.NamespaceDefault}
	granted := binding.DeepCopy()
	granted.ResourceVersion, granted.UID = "", ""
	granted.Name, granted.RoleRef.Name = "granted", "remit-extension-grant-probe:aaaaaaaa"
	var ofAuthor, ofBinding error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, env.Patience, true, func(ctx context.Context) (bool, error) {
		ofAuthor = unprivileged.Create(ctx, site.extension("probe", ""), client.DryRunAll)
		ofBinding = c.Client.Create(ctx, granted.DeepCopy(), client.DryRunAll)
		return isRefusedBy(ofAuthor, extensionPolicy) && isRefusedBy(ofBinding, "'remit-extension-grant-bindings'"), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the policies of ClusterExtensions: %w", errors.Join(err, ofAuthor, ofBinding))
	}
	return nil
}

func isRefusedBy(err error, policy string) bool {
	return err != nil && strings.Contains(err.Error(), policy)
}
