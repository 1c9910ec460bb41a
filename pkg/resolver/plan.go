package resolver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// NamePrefix is the prefix of every InstallPlan's name (OLM v0 contract).
const NamePrefix = "install-"

// Pin is a bundle that was resolved for one Subscription.
type Pin struct {
	// Subscription names the Subscription that requested the bundle. The UID ensures that a recreated Subscription gets
	// a new plan.
	Subscription    string    `json:"subscription"`
	SubscriptionUID types.UID `json:"subscriptionUID"`
	// CatalogNamespace and Catalog name the CatalogSource.
	CatalogNamespace string `json:"catalogNamespace"`
	Catalog          string `json:"catalog"`
	Package          string `json:"package"`
	Channel          string `json:"channel"`
	// Bundle is the name of the ClusterServiceVersion.
	Bundle string `json:"bundle"`
	// Digest identifies the bundle's content.
	Digest string `json:"digest"`
	// Replaces names the installed ClusterServiceVersion that the bundle replaces, if any.
	Replaces string `json:"replaces,omitempty"`
	// StartingCSV is the Subscription's startingCSV, if the bundle does not replace an installed version.
	StartingCSV string `json:"startingCSV,omitempty"`
	// Again names the Subscription's earlier InstallPlan if the new plan needs a different name: the earlier plan was
	// deleted, or it has the same content and either was superseded or completed before its objects were deleted.
	Again string `json:"again,omitempty"`
}

// CatalogKey returns the namespace and the name of the pin's CatalogSource.
func (p Pin) CatalogKey() types.NamespacedName {
	return types.NamespacedName{Namespace: p.CatalogNamespace, Name: p.Catalog}
}

// Plan is a set of pins that are installed together.
type Plan struct {
	Namespace string
	Pins      []Pin
}

// Name returns the name of the plan's InstallPlan: a hash of the namespace and the pins. Users approve a plan
// by its name, so it must be infeasible to create another plan with the same name.
func (p Plan) Name() string { return NamePrefix + ownerutil.Commitment(p.Namespace, p.Encode()) }

// Following returns a plan with the same content but a different name, because it follows an earlier InstallPlan. If
// earlier is empty, it returns the first plan with this content.
func (p Plan) Following(earlier string) Plan {
	out := Plan{Namespace: p.Namespace}
	for _, pin := range p.Pins {
		pin.Again = earlier
		out.Pins = append(out.Pins, pin)
	}
	return out
}

// Encode returns the canonical encoding of the pins.
func (p Plan) Encode() string {
	text, _ := json.Marshal(p.Pins) // cannot fail, because pins contain only strings
	return string(text)
}

// Decode parses the pins of an InstallPlan and verifies that its name commits to them.
func Decode(namespace, name, text string) (Plan, error) {
	plan := Plan{Namespace: namespace}
	if text == "" {
		return plan, fmt.Errorf("the pins are missing: the InstallPlan was edited, or was not created by Remit")
	}
	if err := json.Unmarshal([]byte(text), &plan.Pins); err != nil {
		return plan, fmt.Errorf("the pins cannot be parsed: %w", err)
	}
	if len(plan.Pins) == 0 {
		return plan, fmt.Errorf("the InstallPlan installs nothing")
	}
	want := plan.Name()
	if name != want {
		return plan, fmt.Errorf("the pins do not match the name of the InstallPlan: the InstallPlan was edited")
	}
	return plan, nil
}

// CSVNames returns the names of the plan's ClusterServiceVersions, sorted.
func (p Plan) CSVNames() []string {
	out := make([]string, 0, len(p.Pins))
	for _, pin := range p.Pins {
		out = append(out, pin.Bundle)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SharesSubscription reports whether both plans contain a pin for the same Subscription.
func (p Plan) SharesSubscription(other Plan) bool {
	return slices.ContainsFunc(p.Pins, func(a Pin) bool {
		return slices.ContainsFunc(other.Pins, func(b Pin) bool { return a.SubscriptionUID == b.SubscriptionUID })
	})
}

// maxSought is the number of pins for which MayShareSubscription searches a text.
const maxSought = 64

// MayShareSubscription reports whether the text of another plan's pins can contain one for the same Subscription. It costs much less
// than to decode the text. Texts that Encode wrote contain the UIDs as they are.
func (p Plan) MayShareSubscription(text string) bool {
	return len(p.Pins) > maxSought || slices.ContainsFunc(p.Pins, func(pin Pin) bool { return strings.Contains(text, string(pin.SubscriptionUID)) })
}

// CompareAge orders InstallPlans by age: it returns -1 if a is older than b, and 1 if it is newer. The creation time comes first,
// which the API server sets. spec.generation, which users who may approve a plan can change, orders plans of the same second.
func CompareAge(a, b *operatorsv1alpha1.InstallPlan) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Spec.Generation, b.Spec.Generation))
}
