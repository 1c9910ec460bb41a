package controller

import (
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/catalogsource"
	"github.com/remit-olm/remit/pkg/controller/copiedcsv"
	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

const (
	// maxReferences is the number of owners, and of finalizers, that caches keep of an object. The API server stores as many as fit
	// into an object: 60,000 owners of a ServiceAccount take 10 MB in each program.
	maxReferences = 100
	// maxPorts is the number of ports that caches keep of a Service. The Services of operators have at most 1,000.
	maxPorts = 1_001
	// maxContainers is the number of containers that caches keep of a Deployment. Each one takes 700 bytes, and nothing is reported
	// about the images of the others.
	maxContainers = 200
)

// trimLists shortens the lists that users write and that the API server does not limit (docs/adr/0066). A list that is longer than
// the limit of the controller that reads it keeps one entry more than the limit, so that the controller reports it as before.
func trimLists(obj client.Object) {
	if owners := obj.GetOwnerReferences(); len(owners) > maxReferences {
		obj.SetOwnerReferences(atMost(maxReferences, owners))
	}
	if finalizers := obj.GetFinalizers(); len(finalizers) > maxReferences && !writesFinalizers(obj) {
		obj.SetFinalizers(atMost(maxReferences, finalizers))
	}
	switch o := obj.(type) {
	case *corev1.ServiceAccount:
		o.Secrets, o.ImagePullSecrets = nil, catalogsource.KeptPullSecrets(o.ImagePullSecrets)
	case *corev1.Service:
		o.Spec.Ports = atMost(maxPorts, o.Spec.Ports)
		o.Spec.ClusterIPs, o.Spec.IPFamilies = atMost(maxPorts, o.Spec.ClusterIPs), atMost(maxPorts, o.Spec.IPFamilies)
		o.Spec.ExternalIPs, o.Spec.LoadBalancerSourceRanges = atMost(maxPorts, o.Spec.ExternalIPs), atMost(maxPorts, o.Spec.LoadBalancerSourceRanges)
	case *operatorsv1.OperatorGroup:
		o.Spec.TargetNamespaces, o.Spec.Selector = scoped.KeptTargets(o.Spec.TargetNamespaces), scoped.KeptSelector(o.Spec.Selector)
		o.Status.Namespaces = atMost(scoped.MaxTargets+1, o.Status.Namespaces) // longer than any that Remit writes, so it is replaced
	case *operatorsv1alpha1.InstallPlan:
		o.Spec.ClusterServiceVersionNames = atMost(copiedcsv.MaxPlanned, o.Spec.ClusterServiceVersionNames)
	case *operatorsv2.OperatorCondition:
		o.Spec.Deployments, o.Spec.ServiceAccounts = nil, nil
		o.Spec.Conditions, o.Spec.Overrides = condition.Kept(o.Spec.Conditions), condition.Kept(o.Spec.Overrides)
	}
}

// writesFinalizers reports whether Remit adds or removes a finalizer of objects of this kind. Such a patch contains the whole list.
func writesFinalizers(obj client.Object) bool {
	switch obj.(type) {
	case *operatorsv1alpha1.ClusterServiceVersion, *olmv1.ClusterExtension, *olmv1.ClusterCatalog:
		return true
	}
	return false
}

// atMost returns the first entries of a list. The rest does not stay in memory.
func atMost[T any](max int, list []T) []T {
	if len(list) > max {
		return slices.Clone(list[:max])
	}
	return list
}
