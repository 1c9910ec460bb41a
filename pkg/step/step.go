package step

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Step is one object that a plan makes.
type Step struct {
	// Object is the desired state, with owner labels and without an owner reference: that is set when
	// the ClusterServiceVersion exists.
	Object *unstructured.Unstructured
	// Owner is the install that the object belongs to.
	Owner ownerutil.Owner
	// Dropped are the keys of labels and annotations that the bundle may not set (bundle.Harmless).
	Dropped []string
	// Pruned are the paths of fields that the API server does not know and that were removed from Object.
	Pruned []string
	// Warnings, on a ClusterServiceVersion, are those of its bundle.
	Warnings []string
	// Install is how a ClusterServiceVersion is to be installed; nil for other objects, and where a plan no
	// longer tells.
	Install *Install
}

// Install is for whom, and with which config, an operator is installed.
type Install struct {
	// Targets are those of the OperatorGroup.
	Targets []string
	// Unbounded says that the installation's default account stands in for one that the group would name.
	Unbounded bool
	// Config is the Subscription's; nil where there is none.
	Config *operatorsv1alpha1.SubscriptionConfig
}

// KindBundleSecret is how the contract shows Secrets that come from a bundle.
const KindBundleSecret = "BundleSecret"

// ShownKind is the kind in the InstallPlan's status.
func (s Step) ShownKind() string {
	if s.Object.GetKind() == "Secret" {
		return KindBundleSecret
	}
	return s.Object.GetKind()
}

// IsCSV says whether the step makes the ClusterServiceVersion itself.
func (s Step) IsCSV() bool {
	return s.Object.GetKind() == operatorsv1alpha1.ClusterServiceVersionKind
}

// IsCRD says whether the step makes a CustomResourceDefinition.
func (s Step) IsCRD() bool { return s.Object.GetKind() == "CustomResourceDefinition" }
