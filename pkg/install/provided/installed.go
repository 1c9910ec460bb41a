package provided

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	apigroup "github.com/remit-olm/remit/pkg/lib/group"
)

// Installed reports whether roles may be given permissions for an API. A ClusterServiceVersion can list any API as owned, so
// roles get only those whose CustomResourceDefinition or APIService has a proven owner, as owns decides, and none that belong
// to Kubernetes or Remit. The escalation check of the API server is not sufficient: it limits what the account grants, but the
// holders of the roles would receive the permissions that the account has on another operator's API.
func Installed(ctx context.Context, r client.Reader, api API, owns func(client.Object) bool) (bool, error) {
	if apigroup.Protected(api.Group) {
		return false, nil
	}
	obj, err := define(ctx, r, api)
	return obj != nil && err == nil && owns(obj), err
}

// definedBy returns the name of the CustomResourceDefinition or APIService of an API.
func (a API) definedBy() string {
	if a.Served {
		return a.Version + "." + a.Group
	}
	return a.Resource()
}

// define returns the CustomResourceDefinition or APIService of an API, or nil if it does not exist.
func define(ctx context.Context, r client.Reader, api API) (client.Object, error) {
	var obj client.Object = &apiextensionsv1.CustomResourceDefinition{}
	if api.Served {
		obj = &apiregistrationv1.APIService{}
	}
	if found, err := apply.Read(ctx, r, client.ObjectKey{Name: api.definedBy()}, obj); err != nil || !found {
		return nil, err
	}
	return obj, nil
}
