package requirement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/kinds"
	"github.com/remit-olm/remit/pkg/step/crd"
)

// Lookups looks up what the cluster serves, for one ClusterServiceVersion or bundle. It lists the CustomResourceDefinitions
// and APIServices on first use and answers from them if possible, so that its results change only with objects that the
// caller watches. It is not safe for concurrent use.
type Lookups struct {
	World
	crds *apiextensionsv1.CustomResourceDefinitionList
	// registered describes the APIServices of each API group.
	registered map[string]string
	// unserved is the number of required kinds found so far that are not served. unknown is the
	// number of resources whose scope could not be determined.
	unserved, unknown int
}

// Lookups returns new Lookups.
func (w World) Lookups() *Lookups { return &Lookups{World: w} }

// require sets the status of the requirement for a kind, using either present or absent as its message. After finding
// kinds.MaxUnserved kinds that are not served, it stops checking kinds.
func (l *Lookups) require(ctx context.Context, status *operatorsv1alpha1.RequirementStatus, gvk schema.GroupVersionKind, present, absent string) error {
	if l.unserved >= kinds.MaxUnserved {
		status.Status = NotPresent
		status.Message = fmt.Sprintf("Not checked until fewer than %d other kinds are missing", kinds.MaxUnserved)
		return nil
	}
	isServed, err := l.Serves(ctx, gvk)
	switch {
	case err != nil:
		return err
	case isServed:
		status.Status, status.Message = Present, present
	default:
		status.Status, status.Message = NotPresent, absent
		l.unserved++
	}
	return nil
}

// Serves reports whether the API server serves a kind. It returns true if an established CustomResourceDefinition
// defines the kind. Otherwise, if the group version has an APIService, discovery determines the result; a negative
// result is cached until the APIService changes.
func (l *Lookups) Serves(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	crds, err := l.definitions(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(crds, func(d apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Defines(&d, gvk) && apihelpers.IsCRDConditionTrue(&d, apiextensionsv1.Established)
	}) {
		return true, nil
	}
	api := &apiregistrationv1.APIService{}
	exists, err := apply.Read(ctx, l.Reader, client.ObjectKey{Name: apiServiceName(gvk.Group, gvk.Version)}, api)
	if err != nil || !exists {
		return false, err
	}
	return l.Unserved.Serves(l.Mapper, gvk, string(api.UID)+"/"+api.ResourceVersion)
}

// Mapping returns the mapping of a kind in its preferred version, or nil if the cluster does not serve it. It sends no request
// if no APIService has the kind's group, and caches a negative result until one of the group changes.
func (l *Lookups) Mapping(ctx context.Context, kind schema.GroupKind) (*meta.RESTMapping, error) {
	since, err := l.since(ctx, kind.Group)
	if err != nil || since == "" {
		return nil, err
	}
	return l.Unserved.Kind(l.Mapper, kind, since)
}

// Scopes returns a function that returns the scope of a resource according to its CustomResourceDefinition or, if there is
// none, according to discovery. Discovery is used and cached as in Mapping. Once the scopes of kinds.MaxUnserved resources
// could not be determined, it returns Either for every resource that has no CustomResourceDefinition, without a request.
func (l *Lookups) Scopes(ctx context.Context) webhook.Scopes {
	return func(group, resource string) webhook.Scope {
		if group == corev1.GroupName { // a mapper treats "" as any group; webhook.Builtin has the cluster-scoped resources
			return webhook.Namespaced
		}
		crds, err := l.definitions(ctx)
		if err != nil {
			return webhook.Either
		}
		if i := slices.IndexFunc(crds, func(d apiextensionsv1.CustomResourceDefinition) bool {
			return d.Spec.Group == group && d.Spec.Names.Plural == resource
		}); i >= 0 {
			return webhook.ScopeOf(crds[i].Spec.Scope == apiextensionsv1.ClusterScoped)
		}
		return l.discoverScope(ctx, schema.GroupResource{Group: group, Resource: resource})
	}
}

func (l *Lookups) discoverScope(ctx context.Context, resource schema.GroupResource) webhook.Scope {
	since, err := l.since(ctx, resource.Group)
	if err != nil || since == "" || l.unknown >= kinds.MaxUnserved {
		return webhook.Either
	}
	mapping, err := l.Unserved.Resource(l.Mapper, resource, since)
	if err != nil || mapping == nil {
		l.unknown++
		return webhook.Either
	}
	return webhook.ScopeOf(mapping.Scope.Name() == meta.RESTScopeNameRoot)
}

// definitions returns the cluster's CustomResourceDefinitions.
func (l *Lookups) definitions(ctx context.Context) ([]apiextensionsv1.CustomResourceDefinition, error) {
	if l.crds == nil {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := l.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		l.crds = list
	}
	return l.crds.Items, nil
}

// since returns a value that identifies the state of the APIServices of a group; "" if there are none.
func (l *Lookups) since(ctx context.Context, group string) (string, error) {
	if l.registered == nil {
		list := &apiregistrationv1.APIServiceList{}
		if err := l.Reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("list APIServices: %w", err)
		}
		slices.SortFunc(list.Items, func(a, b apiregistrationv1.APIService) int { return strings.Compare(a.Name, b.Name) })
		l.registered = map[string]string{}
		for i := range list.Items {
			api := &list.Items[i]
			l.registered[api.Spec.Group] += string(api.UID) + "/" + api.ResourceVersion + " "
		}
	}
	return l.registered[group], nil
}
