package step

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Step is one object that a plan creates or updates.
type Step struct {
	// Object is the desired state, with owner labels but without an owner reference, which is set when the
	// ClusterServiceVersion exists.
	Object *unstructured.Unstructured
	// Owner is the install to which the object belongs.
	Owner ownerutil.Owner
	// Dropped lists the keys of labels and annotations that the bundle is not allowed to set (bundle.Harmless).
	Dropped []string
	// Pruned lists the paths of fields that were removed from Object because the API server does not recognize them.
	Pruned []string
	// Warnings lists the warnings of the bundle, which only a ClusterServiceVersion has, and the collisions because of which
	// the object is not written.
	Warnings []string
	// Install describes how a ClusterServiceVersion is to be installed. It is nil for other objects, and if the plan
	// no longer contains this information.
	Install *Install
}

// Install contains the targets and the config with which an operator is installed.
type Install struct {
	// Targets are the target namespaces of the OperatorGroup.
	Targets []string
	// Unbounded is true if the OperatorGroup names no account and the installation's default account is used.
	Unbounded bool
	// Config is the Subscription's config, or nil.
	Config *operatorsv1alpha1.SubscriptionConfig
}

// KindBundleSecret is the kind that an InstallPlan displays for Secrets from a bundle (OLM v0 contract).
const KindBundleSecret = "BundleSecret"

// ShownKind returns the kind to display in the InstallPlan's status.
func (s Step) ShownKind() string {
	if s.Object.GetKind() == "Secret" {
		return KindBundleSecret
	}
	return s.Object.GetKind()
}

// IsCSV reports whether the object is the ClusterServiceVersion itself.
func (s Step) IsCSV() bool {
	return s.Object.GetKind() == operatorsv1alpha1.ClusterServiceVersionKind
}

// IsCRD reports whether the object is a CustomResourceDefinition.
func (s Step) IsCRD() bool { return s.Object.GetKind() == "CustomResourceDefinition" }
