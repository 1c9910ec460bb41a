package requirement

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/kinds"
)

// Statuses of requirements.
const (
	Present      = operatorsv1alpha1.RequirementStatusReasonPresent
	NotPresent   = operatorsv1alpha1.RequirementStatusReasonNotPresent
	NotSatisfied = operatorsv1alpha1.RequirementStatusReasonPresentNotSatisfied
	NotAvailable = operatorsv1alpha1.RequirementStatusReasonNotAvailable
)

// World provides the state of the cluster.
type World struct {
	// Reader reads CustomResourceDefinitions and APIServices, preferably from a cache.
	Reader client.Reader
	// Mapper maps the kinds that the API server serves, according to discovery.
	Mapper meta.RESTMapper
	// ServerVersion returns the API server's version according to discovery.
	ServerVersion func() (string, error)
	// Unserved caches kinds that are not served.
	Unserved *kinds.Unserved
}

// Of returns the status of the requirements of a ClusterServiceVersion that do not depend on who installs it, in a
// fixed order. The message of each status describes whether the requirement is met or what is missing.
func (w World) Of(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) ([]operatorsv1alpha1.RequirementStatus, error) {
	var out []operatorsv1alpha1.RequirementStatus
	l := w.Lookups()
	for _, check := range []func(context.Context, *operatorsv1alpha1.ClusterServiceVersion) ([]operatorsv1alpha1.RequirementStatus, error){
		w.version, w.crds, l.apis,
	} {
		more, err := check(ctx, csv)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// Met reports whether all requirements are met.
func Met(all []operatorsv1alpha1.RequirementStatus) bool {
	return !slices.ContainsFunc(all, func(r operatorsv1alpha1.RequirementStatus) bool { return r.Status != Present })
}

func (w World) version(_ context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) ([]operatorsv1alpha1.RequirementStatus, error) {
	if csv.Spec.MinKubeVersion == "" {
		return nil, nil
	}
	status := operatorsv1alpha1.RequirementStatus{
		Version: "v1", Kind: operatorsv1alpha1.ClusterServiceVersionKind, Name: csv.Name, Status: NotPresent,
	}
	server, err := w.ServerVersion()
	if err != nil {
		status.Message = "Server version discovery error"
	} else {
		status.Status, status.Message = compareVersions(csv.Spec.MinKubeVersion, server)
	}
	return []operatorsv1alpha1.RequirementStatus{status}, nil
}

func compareVersions(want, server string) (operatorsv1alpha1.StatusReason, string) {
	least, err := version.ParseGeneric(want)
	if err != nil {
		return NotPresent, fmt.Sprintf("CSV version parsing error: %q is not a valid version", want)
	}
	have, err := version.ParseGeneric(server)
	if err != nil {
		return NotPresent, fmt.Sprintf("Server version parsing error: %q is not a valid version", server)
	}
	if have.LessThan(least) {
		return NotPresent, fmt.Sprintf("CSV version requirement not met: minKubeVersion (%s) > server version (%s)", want, server)
	}
	return Present, fmt.Sprintf("CSV minKubeVersion (%s) less than server version (%s)", want, server)
}

func (w World) crds(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) ([]operatorsv1alpha1.RequirementStatus, error) {
	var out []operatorsv1alpha1.RequirementStatus
	defs := csv.Spec.CustomResourceDefinitions
	for _, d := range slices.Concat(defs.Owned, defs.Required) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		exists, err := apply.Read(ctx, w.Reader, types.NamespacedName{Name: d.Name}, crd)
		if err != nil {
			return nil, err
		}
		if !exists {
			crd = nil
		}
		out = append(out, requireCRD(d, crd))
	}
	return out, nil
}

func requireCRD(d operatorsv1alpha1.CRDDescription, crd *apiextensionsv1.CustomResourceDefinition) operatorsv1alpha1.RequirementStatus {
	status := operatorsv1alpha1.RequirementStatus{
		Group: apiextensionsv1.GroupName, Version: "v1", Kind: "CustomResourceDefinition", Name: d.Name,
	}
	switch {
	case crd == nil:
		status.Status, status.Message = NotPresent, "CRD is not present"
		return status
	case !serves(crd, d.Version):
		status.Status, status.Message = NotPresent, "CRD version not served"
		return status
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		status.Status, status.Message = NotAvailable, "CRD is present but the Established condition is False (not available)"
	default:
		status.Status, status.Message = Present, "CRD is present and Established condition is true"
	}
	status.UUID = string(crd.UID)
	return status
}

// serves reports whether the CustomResourceDefinition serves the version, or any version if name is "".
func serves(crd *apiextensionsv1.CustomResourceDefinition, name string) bool {
	return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Served && (name == "" || v.Name == name)
	})
}

// apis returns the status of the native APIs and APIServices that the CSV requires.
func (l *Lookups) apis(ctx context.Context, csv *operatorsv1alpha1.ClusterServiceVersion) ([]operatorsv1alpha1.RequirementStatus, error) {
	var out []operatorsv1alpha1.RequirementStatus
	for _, api := range csv.Spec.NativeAPIs {
		status := operatorsv1alpha1.RequirementStatus{Group: api.Group, Version: api.Version, Kind: api.Kind}
		if err := l.require(ctx, &status, schema.GroupVersionKind(api), "Native API exists", "Native API does not exist"); err != nil {
			return nil, err
		}
		out = append(out, status)
	}
	for _, api := range csv.Spec.APIServiceDefinitions.Required {
		status := APIService(api)
		gvk := schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind}
		if err := l.require(ctx, &status, gvk, "APIService is present and serves the kind", "APIService does not serve the kind"); err != nil {
			return nil, err
		}
		out = append(out, status)
	}
	return out, nil
}

// APIService returns the requirement for an APIService, without its status.
func APIService(api operatorsv1alpha1.APIServiceDescription) operatorsv1alpha1.RequirementStatus {
	return operatorsv1alpha1.RequirementStatus{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Name: apiServiceName(api.Group, api.Version),
	}
}

// apiServiceName returns the name of the APIService for a version of an API group, regardless of its owner.
func apiServiceName(group, version string) string { return version + "." + group }
