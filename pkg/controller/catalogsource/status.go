package catalogsource

import (
	"fmt"
	"strconv"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/lib/status"
)

const (
	// addressInProcess is the address in the status of a catalog that is loaded in process.
	addressInProcess = "in-process"
	protocolGRPC     = "grpc"
	// maxMessage bounds status.message, in bytes.
	maxMessage = 2048
	// maxShownExcluded bounds the number of excluded packages that a condition names; the others are counted.
	maxShownExcluded = 20
	// typePackagesExcluded is True while invalid packages are excluded. OLM v0 has no such condition.
	typePackagesExcluded  = "PackagesExcluded"
	reasonInvalidPackages = "InvalidPackages"
	// typePackagesNotListed is True while package-server refuses the catalog. OLM v0 has no such condition.
	typePackagesNotListed = "PackagesNotListed"
	reasonRefused         = "RefusedByPackageServer"
)

// desired returns the status for an observation. Fields that Remit does not use are unchanged.
func desired(cs *operatorsv1alpha1.CatalogSource, seen observation, now metav1.Time) *operatorsv1alpha1.CatalogSourceStatus {
	out := cs.Status.DeepCopy()
	out.Reason, out.Message = "", ""
	if seen.problem == nil {
		seen.problem = invalidInterval(cs)
	}
	if seen.problem != nil {
		out.Reason, out.Message = seen.problem.reason, status.Text(oneLine(seen.problem.message))
	}
	out.ConfigMapResource = configMapReference(out.ConfigMapResource, seen.configMap, now)
	out.RegistryServiceStatus = registryService(out.RegistryServiceStatus, seen, now)
	out.GRPCConnectionState = connectionState(out.GRPCConnectionState, seen, now)
	if connectsAfter(out) != nil && now.After(out.ConfigMapResource.LastUpdateTime.Time) {
		out.GRPCConnectionState.LastConnectTime = now
	}
	if cs.Poll() && seen.polled != nil {
		out.LatestImageRegistryPoll = seen.polled
	}
	setConditions(out, seen.conditions, now)
	setExcluded(out, seen.snapshot, now)
	setNotListed(out, seen.refusal, now)
	return out
}

// connectsAfter returns the time at which the content of a ConfigMap was updated, if the catalog is READY and
// lastConnect is not later than this time, or nil otherwise. OLM connects again after an update, so tools wait until
// lastConnect is later than lastUpdateTime. Both have a resolution of one second, so lastConnect is updated in the next
// second.
func connectsAfter(st *operatorsv1alpha1.CatalogSourceStatus) *metav1.Time {
	connection, from := st.GRPCConnectionState, st.ConfigMapResource
	if connection == nil || from == nil || connection.LastObservedState != connectivity.Ready.String() || connection.LastConnectTime.After(from.LastUpdateTime.Time) {
		return nil
	}
	return &from.LastUpdateTime
}

// setExcluded sets the condition that names the invalid packages, which are excluded while the rest of the catalog is
// served, or removes it.
func setExcluded(out *operatorsv1alpha1.CatalogSourceStatus, served *catalog.Snapshot, now metav1.Time) {
	if served == nil || len(served.Excluded) == 0 {
		meta.RemoveStatusCondition(&out.Conditions, typePackagesExcluded)
		return
	}
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: typePackagesExcluded, Status: metav1.ConditionTrue, Reason: reasonInvalidPackages, LastTransitionTime: now,
		Message: status.Text(oneLine(fmt.Sprintf("the rest of the catalog is served without %s: %s", excludedNames(served), warnings(served)))),
	})
}

// excludedNames quotes the first names of excluded packages, and counts the others.
func excludedNames(served *catalog.Snapshot) string {
	shown := served.Excluded[:min(len(served.Excluded), maxShownExcluded)]
	text := fmt.Sprintf("%q", shown)
	if more := len(served.Excluded) - len(shown) + served.MoreExcluded; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// setNotListed sets the condition that reports why PackageManifests do not show the content of the catalog, or removes it. Everything else
// uses the content.
func setNotListed(out *operatorsv1alpha1.CatalogSourceStatus, refusal string, now metav1.Time) {
	if refusal == "" {
		meta.RemoveStatusCondition(&out.Conditions, typePackagesNotListed)
		return
	}
	meta.SetStatusCondition(&out.Conditions, metav1.Condition{
		Type: typePackagesNotListed, Status: metav1.ConditionTrue, Reason: reasonRefused, LastTransitionTime: now,
		Message: status.Text(oneLine("PackageManifests show no packages of this catalog, or those of an earlier version: " + refusal)),
	})
}

// setConditions sets the conditions of an image template, or removes them.
func setConditions(out *operatorsv1alpha1.CatalogSourceStatus, want []metav1.Condition, now metav1.Time) {
	for _, t := range []string{typeTemplatesResolved, typeResolvedImage} {
		if len(want) == 0 {
			meta.RemoveStatusCondition(&out.Conditions, t)
		}
	}
	for _, c := range want {
		c.LastTransitionTime = now
		c.Message = status.Text(oneLine(c.Message))
		meta.SetStatusCondition(&out.Conditions, c)
	}
}

// registryService returns the status of a registry, or nil without a connection. It names a Service only if Remit runs
// the registry, not for catalogs that are in process or at an address.
func registryService(old *operatorsv1alpha1.RegistryServiceStatus, seen observation, now metav1.Time) *operatorsv1alpha1.RegistryServiceStatus {
	if seen.state == "" {
		return nil
	}
	out := &operatorsv1alpha1.RegistryServiceStatus{Protocol: protocolGRPC, CreatedAt: now}
	if seen.service.Name != "" {
		out.ServiceName, out.ServiceNamespace, out.Port = seen.service.Name, seen.service.Namespace, strconv.Itoa(server.Port)
	}
	if old != nil && !old.CreatedAt.IsZero() && old.ServiceName == out.ServiceName {
		out.CreatedAt = old.CreatedAt
	}
	return out
}

// connectionState returns the state of a connection, or nil if there is none. It updates lastConnect when the catalog
// becomes ready, or is ready at another address.
func connectionState(old *operatorsv1alpha1.GRPCConnectionState, seen observation, now metav1.Time) *operatorsv1alpha1.GRPCConnectionState {
	if seen.state == "" {
		return nil
	}
	out := &operatorsv1alpha1.GRPCConnectionState{Address: seen.address, LastObservedState: seen.state}
	same := old != nil && old.Address == seen.address
	if same {
		out.LastConnectTime = old.LastConnectTime
	}
	ready := connectivity.Ready.String()
	if seen.state == ready && (!same || old.LastObservedState != ready || old.LastConnectTime.IsZero()) {
		out.LastConnectTime = now
	}
	return out
}

func configMapReference(old, seen *operatorsv1alpha1.ConfigMapResourceReference, now metav1.Time) *operatorsv1alpha1.ConfigMapResourceReference {
	if seen == nil {
		return nil
	}
	out := *seen
	out.LastUpdateTime = now
	if old != nil && old.UID == seen.UID && old.ResourceVersion == seen.ResourceVersion && old.Name == seen.Name {
		out.LastUpdateTime = old.LastUpdateTime
	}
	return &out
}

// oneLine is a message as one line of a limited length.
func oneLine(message string) string { return status.Cut(status.OneLine(message), maxMessage) }
