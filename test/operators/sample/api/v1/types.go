package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: "sample.remit.dev", Version: "v1"}

// The condition of a Greeting and its reasons.
const (
	ConditionReady = "Ready"

	// ReasonGreeting means that all requested greeters are available.
	ReasonGreeting = "Greeting"
	// ReasonGreetersStarting means that some of the greeters are not available yet.
	ReasonGreetersStarting = "GreetersStarting"
)

// Greeting requests a ConfigMap with a message and a number of greeters that read it.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GreetingSpec   `json:"spec"`
	Status GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec is the desired state of a Greeting.
type GreetingSpec struct {
	// Message is written to the ConfigMap. The default is the operator's default message.
	Message string `json:"message,omitempty"`
	// Replicas is the number of greeters.
	Replicas int32 `json:"replicas,omitempty"`
}

// GreetingStatus is the observed state of a Greeting.
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
