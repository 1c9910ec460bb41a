package csv

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
)

// Statuses of requirements and their dependents.
const (
	present      = operatorsv1alpha1.RequirementStatusReasonPresent
	notPresent   = operatorsv1alpha1.RequirementStatusReasonNotPresent
	notSatisfied = operatorsv1alpha1.RequirementStatusReasonPresentNotSatisfied
	notAvailable = operatorsv1alpha1.RequirementStatusReasonNotAvailable
)

// gatherRequirements fills the requirement statuses, in a fixed order, and says whether one is unmet.
func (r *Reconciler) gatherRequirements(ctx context.Context, s *scope) error {
	if !s.runnable() {
		return nil
	}
	for _, gather := range []func(context.Context, *scope) error{
		r.requireVersion, r.requireCRDs, r.requireNativeAPIs, r.requireAPIServices, r.requireServiceAccounts,
	} {
		if err := gather(ctx, s); err != nil {
			return err
		}
	}
	s.requireAccount()
	return r.requireHooks(s)
}

// require adds a requirement. One that is not present as it should be keeps the CSV from going on.
func (s *scope) require(status operatorsv1alpha1.RequirementStatus) {
	s.requirements = append(s.requirements, status)
	s.facts.Unmet = s.facts.Unmet || status.Status != present
}

func (r *Reconciler) requireVersion(_ context.Context, s *scope) error {
	if s.csv.Spec.MinKubeVersion == "" {
		return nil
	}
	status := operatorsv1alpha1.RequirementStatus{
		Version: "v1", Kind: operatorsv1alpha1.ClusterServiceVersionKind, Name: s.csv.Name, Status: notPresent,
	}
	server, err := r.serverVersion()
	if err != nil {
		status.Message = "Server version discovery error"
		s.require(status)
		return nil
	}
	status.Status, status.Message = compareVersions(s.csv.Spec.MinKubeVersion, server)
	s.require(status)
	return nil
}

func compareVersions(want, server string) (operatorsv1alpha1.StatusReason, string) {
	least, err := version.ParseGeneric(want)
	if err != nil {
		return notPresent, fmt.Sprintf("CSV version parsing error: %q is no version", want)
	}
	have, err := version.ParseGeneric(server)
	if err != nil {
		return notPresent, fmt.Sprintf("Server version parsing error: %q is no version", server)
	}
	if have.LessThan(least) {
		return notPresent, fmt.Sprintf("CSV version requirement not met: minKubeVersion (%s) > server version (%s)", want, server)
	}
	return present, fmt.Sprintf("CSV minKubeVersion (%s) less than server version (%s)", want, server)
}

func (r *Reconciler) requireCRDs(ctx context.Context, s *scope) error {
	defs := s.csv.Spec.CustomResourceDefinitions
	for _, d := range append(append([]operatorsv1alpha1.CRDDescription{}, defs.Owned...), defs.Required...) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := r.client.Get(ctx, types.NamespacedName{Name: d.Name}, crd)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get CustomResourceDefinition %q: %w", d.Name, err)
		}
		if err != nil {
			crd = nil
		}
		s.require(requireCRD(d, crd))
	}
	return nil
}

func requireCRD(d operatorsv1alpha1.CRDDescription, crd *apiextensionsv1.CustomResourceDefinition) operatorsv1alpha1.RequirementStatus {
	status := operatorsv1alpha1.RequirementStatus{
		Group: apiextensionsv1.GroupName, Version: "v1", Kind: "CustomResourceDefinition", Name: d.Name,
	}
	switch {
	case crd == nil:
		status.Status, status.Message = notPresent, "CRD is not present"
		return status
	case !serves(crd, d.Version):
		status.Status, status.Message = notPresent, "CRD version not served"
	case !established(crd):
		status.Status, status.Message = notAvailable, "CRD is present but the Established condition is False (not available)"
	default:
		status.Status, status.Message = present, "CRD is present and Established condition is true"
	}
	status.UUID = string(crd.UID)
	return status
}

func serves(crd *apiextensionsv1.CustomResourceDefinition, name string) bool {
	for _, v := range crd.Spec.Versions {
		if v.Served && (name == "" || v.Name == name) {
			return true
		}
	}
	return false
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func (r *Reconciler) requireNativeAPIs(_ context.Context, s *scope) error {
	for _, api := range s.csv.Spec.NativeAPIs {
		status := operatorsv1alpha1.RequirementStatus{
			Group: api.Group, Version: api.Version, Kind: api.Kind, Status: present, Message: "Native API exists",
		}
		ok, err := r.served(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
		if err != nil {
			return err
		}
		if !ok {
			status.Status, status.Message = notPresent, "Native API does not exist"
		}
		s.require(status)
	}
	return nil
}

// requireAPIServices looks only at those that the CSV needs from others.
func (r *Reconciler) requireAPIServices(_ context.Context, s *scope) error {
	for _, api := range s.csv.Spec.APIServiceDefinitions.Required {
		status := apiService(api)
		ok, err := r.served(schema.GroupVersionKind{Group: api.Group, Version: api.Version, Kind: api.Kind})
		if err != nil {
			return err
		}
		status.Status, status.Message = present, "APIService is present and serves the kind"
		if !ok {
			status.Status, status.Message = notPresent, "APIService does not serve the kind"
		}
		s.require(status)
	}
	return nil
}

func apiService(api operatorsv1alpha1.APIServiceDescription) operatorsv1alpha1.RequirementStatus {
	return operatorsv1alpha1.RequirementStatus{
		Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService", Name: api.Version + "." + api.Group,
	}
}

// served asks the API server's discovery, through the mapper that remembers what it has found.
func (r *Reconciler) served(gvk schema.GroupVersionKind) (bool, error) {
	_, err := r.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discover %s: %w", gvk, err)
	}
	return true, nil
}
