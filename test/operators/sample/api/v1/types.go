package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of everything in this package.
var GroupVersion = schema.GroupVersion{Group: "sample.remit.dev", Version: "v1"}

// The condition of a Greeting and its reasons.
const (
	ConditionReady = "Ready"

	// ReasonGreeting means that as many greeters as asked for are available.
	ReasonGreeting = "Greeting"
	// ReasonGreetersStarting means that some of the greeters are not available yet.
	ReasonGreetersStarting = "GreetersStarting"
)

// Greeting asks for a message in a ConfigMap and for greeters that would say it.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GreetingSpec   `json:"spec"`
	Status GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec is what the user wants.
type GreetingSpec struct {
	// Message goes into the ConfigMap; without one the operator's default message does.
	Message string `json:"message,omitempty"`
	// Replicas is the number of greeters.
	Replicas int32 `json:"replicas,omitempty"`
}

// GreetingStatus is what the operator saw.
type GreetingStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	ConfigMapName      string             `json:"configMapName,omitempty"`
}

// GreetingList is a list of Greetings.
type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Greeting `json:"items"`
}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
