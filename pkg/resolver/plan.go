package resolver

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// NamePrefix is that of every InstallPlan (contract 1.4).
const NamePrefix = "install-"

// Pin is one bundle as it was resolved for one Subscription.
type Pin struct {
	// Subscription that asked for it, with its UID: a Subscription made anew makes a new plan.
	Subscription    string    `json:"subscription"`
	SubscriptionUID types.UID `json:"subscriptionUID"`
	// CatalogNamespace and Catalog name the CatalogSource.
	CatalogNamespace string `json:"catalogNamespace"`
	Catalog          string `json:"catalog"`
	Package          string `json:"package"`
	Channel          string `json:"channel"`
	// Bundle is the name of the ClusterServiceVersion.
	Bundle string `json:"bundle"`
	// Digest is that of the bundle's content.
	Digest string `json:"digest"`
	// Replaces names the installed ClusterServiceVersion whose place the bundle takes; "" where there is none.
	Replaces string `json:"replaces,omitempty"`
	// StartingCSV is what the Subscription starts with, where nothing of its package is installed.
	StartingCSV string `json:"startingCSV,omitempty"`
	// Again names the spent InstallPlan of the same content that this one follows: what that made was deleted, or it was
	// superseded. "" where there is none.
	Again string `json:"again,omitempty"`
}

// CatalogKey names the pin's CatalogSource.
func (p Pin) CatalogKey() types.NamespacedName {
	return types.NamespacedName{Namespace: p.CatalogNamespace, Name: p.Catalog}
}

// Plan is a set of pins that are installed together.
type Plan struct {
	Namespace string
	Pins      []Pin
}

// Name is that of the plan's InstallPlan: a commitment to namespace and pins.
func (p Plan) Name() (string, error) {
	text, err := p.Encode()
	if err != nil {
		return "", err
	}
	return NamePrefix + ownerutil.Hash(p.Namespace, text), nil
}

// Encode is the canonical text of the pins.
func (p Plan) Encode() (string, error) {
	text, err := json.Marshal(p.Pins)
	if err != nil {
		return "", fmt.Errorf("encode plan: %w", err)
	}
	return string(text), nil
}

// Decode reads the pins of an InstallPlan and holds them against its name.
func Decode(namespace, name, text string) (Plan, error) {
	plan := Plan{Namespace: namespace}
	if text == "" {
		return plan, fmt.Errorf("it does not say what it installs: it was not made by Remit, or was edited")
	}
	if err := json.Unmarshal([]byte(text), &plan.Pins); err != nil {
		return plan, fmt.Errorf("what it installs cannot be read: %w", err)
	}
	if len(plan.Pins) == 0 {
		return plan, fmt.Errorf("it installs nothing")
	}
	want, err := plan.Name()
	if err != nil {
		return plan, err
	}
	if name != want {
		return plan, fmt.Errorf("what it says it installs is not what its name commits to: it was edited")
	}
	return plan, nil
}

// CSVNames are the names of the plan's ClusterServiceVersions, sorted.
func (p Plan) CSVNames() []string {
	out := make([]string, 0, len(p.Pins))
	for _, pin := range p.Pins {
		out = append(out, pin.Bundle)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// SharesSubscription says whether both plans were made for one and the same Subscription.
func (p Plan) SharesSubscription(other Plan) bool {
	for _, a := range p.Pins {
		for _, b := range other.Pins {
			if a.SubscriptionUID == b.SubscriptionUID {
				return true
			}
		}
	}
	return false
}
