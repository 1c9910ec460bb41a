package apiservice

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/remit-olm/remit/pkg/install/deployment"
	"github.com/remit-olm/remit/pkg/lib/group"
)

const (
	// maxDescriptions is the maximum number of APIs that one CSV can own.
	maxDescriptions = 100
	defaultPort     = 443
)

// API is a group and version that a CSV owns. It can contain several kinds.
type API struct {
	Group, Version string
	Deployment     string
	Port           int32
}

// Name returns the name of the API's APIService.
func (a API) Name() string { return a.Version + "." + a.Group }

// Owned returns the APIs that the CSV owns, without duplicates and in the CSV's order.
func Owned(csv *operatorsv1alpha1.ClusterServiceVersion) []API {
	var out []API
	for _, d := range csv.Spec.APIServiceDefinitions.Owned {
		api := API{Group: d.Group, Version: d.Version, Deployment: d.DeploymentName, Port: cmp.Or(d.ContainerPort, defaultPort)}
		if !slices.ContainsFunc(out, func(have API) bool { return have.Name() == api.Name() }) {
			out = append(out, api)
		}
	}
	return out
}

// Validate returns all errors in the APIs that a CSV owns. They do not depend on who installs the CSV, and only its
// author can fix them.
func Validate(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	if n := len(csv.Spec.APIServiceDefinitions.Owned); n > maxDescriptions {
		return fmt.Errorf("CSV owns %d APIs; at most %d are supported", n, maxDescriptions)
	}
	var errs []error
	by := map[string]API{}
	for _, api := range Owned(csv) {
		by[api.Name()] = api
	}
	for _, d := range csv.Spec.APIServiceDefinitions.Owned {
		for _, err := range validate(csv, d, by[d.Version+"."+d.Group]) {
			errs = append(errs, fmt.Errorf("APIService %q: %w", d.Version+"."+d.Group, err))
		}
	}
	return errors.Join(errs...)
}

func validate(csv *operatorsv1alpha1.ClusterServiceVersion, d operatorsv1alpha1.APIServiceDescription, api API) []error {
	var errs []error
	if len(validation.IsDNS1035Label(d.Version)) > 0 {
		errs = append(errs, fmt.Errorf("version %q is invalid", d.Version))
	}
	if len(validation.IsDNS1123Subdomain(d.Group)) > 0 {
		errs = append(errs, fmt.Errorf("group %q is invalid", d.Group))
	}
	if group.Protected(d.Group) {
		errs = append(errs, fmt.Errorf("API group %q is reserved; operators may not serve it", d.Group))
	}
	if d.ContainerPort != 0 && len(validation.IsValidPortNum(int(d.ContainerPort))) > 0 {
		errs = append(errs, fmt.Errorf("containerPort %d is not a valid port", d.ContainerPort))
	}
	if deployment.SpecOf(csv, d.DeploymentName) == nil {
		errs = append(errs, fmt.Errorf("deployment %q is not part of the install strategy", d.DeploymentName))
	}
	if d.DeploymentName != api.Deployment || cmp.Or(d.ContainerPort, defaultPort) != api.Port {
		errs = append(errs, errors.New("all kinds of an API version must be served by the same deployment and port"))
	}
	return errs
}
