package catalogsource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"google.golang.org/grpc/connectivity"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cataloggrpc "github.com/remit-olm/remit/pkg/catalog/grpc"
	"github.com/remit-olm/remit/pkg/controller/kit"
	sizes "github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// observe reads the content that a spec names, and releases the content of an earlier spec.
func (r *Reconciler) observe(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) observation {
	key := client.ObjectKeyFromObject(cs)
	spec := &cs.Spec
	problem := invalid(spec)
	if err := sizes.Refused(cs); err != nil {
		problem = problemf(operatorsv1alpha1.CatalogSourceSpecInvalidError, "spec.grpcPodConfig or spec.secrets is too large: %v", err)
	}
	isGRPC := spec.SourceType == operatorsv1alpha1.SourceTypeGrpc
	byImage := problem == nil && isGRPC && spec.Image != ""
	byAddress := problem == nil && isGRPC && spec.Image == ""
	byConfigMap := problem == nil && !isGRPC
	if !byImage {
		r.directories.drop(key)
		r.images.drop(key)
	}
	if !byConfigMap {
		r.configMaps.drop(key)
		r.follows.drop(key)
	}
	if byImage {
		return r.observeImage(ctx, cs)
	}
	if !byAddress {
		r.connections.drop(key)
	}
	seen := observation{problem: problem}
	switch {
	case byAddress:
		seen = r.observeAddress(ctx, key, spec.Address)
	case byConfigMap:
		seen = r.observeConfigMap(ctx, key, spec.ConfigMap)
	}
	return r.withoutServer(ctx, cs, seen)
}

// withoutServer removes the registry that ran for an earlier spec or image.
func (r *Reconciler) withoutServer(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, seen observation) observation {
	at, err := r.serversOf(ctx, cs, "")
	if err == nil && at != nil {
		err = at.remove(ctx, cs)
	}
	if err != nil {
		seen.retry = errors.Join(seen.retry, fmt.Errorf("remove registry: %w", err))
	}
	return seen
}

// observeImage observes an image: one that is mapped to a directory, or one that is pulled.
func (r *Reconciler) observeImage(ctx context.Context, cs *operatorsv1alpha1.CatalogSource) observation {
	const reason = operatorsv1alpha1.CatalogSourceRegistryServerError
	key := client.ObjectKeyFromObject(cs)
	if dir, ok := r.directories.use(key, cs.Spec.Image); ok {
		r.images.drop(key)
		r.connections.drop(key)
		where := fmt.Sprintf("couldn't ensure registry server - image %q, directory %q", cs.Spec.Image, dir.path)
		loaded, again := dir.load(ctx, key, stateOf(cs))
		seen := inProcess(loaded, reason, where)
		seen.recheckAfter = again
		return r.withoutServer(ctx, cs, seen)
	}
	version, err := r.version(cs)
	if err != nil {
		return observation{problem: problemf(reason, "couldn't ensure registry server - %v", err), retry: err}
	}
	spec, conditions := imageSpecOf(cs, version)
	view := r.images.ensure(key, spec)
	seen := observation{state: view.state.String(), address: addressInProcess, snapshot: view.good, polled: view.polled, conditions: conditions}
	if view.registry == "" || view.err != nil {
		seen.problem = view.problem(reason, ensureServer)
	}
	if view.registry == "" && view.good != nil {
		r.connections.drop(key)
		return r.withoutServer(ctx, cs, seen)
	}
	runs := view.registry
	if view.unread && cs.Namespace != r.GlobalNamespace {
		runs = spec.image // by tag, if the namespace's registries run as the default account
	}
	at, err := r.serversOf(ctx, cs, runs)
	if at == nil {
		r.connections.drop(key)
		return seen.withoutServers(err, view.registry != "")
	}
	return r.observeServer(ctx, at, cs, spec, view, seen)
}

// stateOf identifies the state of a CatalogSource, excluding its status.
func stateOf(cs *operatorsv1alpha1.CatalogSource) string {
	text, _ := json.Marshal([]any{cs.UID, cs.Generation, cs.Labels, cs.Annotations}) // encoding strings and numbers cannot fail
	return ownerutil.Hash(string(text))
}

// version returns the API server's version, or "" if the CatalogSource's image does not depend on it.
func (r *Reconciler) version(cs *operatorsv1alpha1.CatalogSource) (string, error) {
	if cs.Annotations[annotationTemplate] == "" || r.ServerVersion == nil {
		return "", nil
	}
	return r.ServerVersion()
}

// inProcess returns the observation of content that was loaded in process.
func inProcess(c content, reason operatorsv1alpha1.ConditionReason, where string) observation {
	seen := observation{state: connectivity.Ready.String(), address: addressInProcess, snapshot: c.good, problem: c.problem(reason, where)}
	if c.err != nil {
		seen.state = connectivity.TransientFailure.String()
	}
	return seen
}

func (r *Reconciler) observeAddress(ctx context.Context, key types.NamespacedName, address string) observation {
	const reason = operatorsv1alpha1.CatalogSourceRegistryServerError
	target, err := r.target(ctx, key.Namespace, address)
	if err != nil {
		r.connections.drop(key)
		seen := observation{problem: problemf(reason, "couldn't connect to registry - %v", err)}
		if kit.Is[unread](err) {
			seen.retry = err
		}
		return seen
	}
	state, c, err := r.connections.ensure(key, target, target)
	if err != nil {
		return observation{problem: problemf(reason, "couldn't connect to registry - %v", err)}
	}
	seen := observation{state: state.String(), address: address, snapshot: c.good}
	switch {
	case c.err != nil:
		seen.problem = c.problem(reason, fmt.Sprintf("couldn't list registry %q", address))
	case state == connectivity.TransientFailure:
		seen.problem = problemf(reason, "couldn't connect to registry - %q does not respond", address)
	}
	return seen
}

// target returns the address to dial.
func (r *Reconciler) target(ctx context.Context, namespace, address string) (string, error) {
	scope := cataloggrpc.Scope{Namespace: namespace, ClusterDomain: r.ClusterDomain}
	if namespace == r.GlobalNamespace {
		return scope.Target(address)
	}
	service, err := scope.Service(address)
	if err != nil {
		return "", err
	}
	target, err := r.services.target(ctx, namespace, service)
	if err != nil {
		return "", fmt.Errorf("address %q: %w", address, err)
	}
	return target, nil
}

func (r *Reconciler) observeConfigMap(ctx context.Context, key types.NamespacedName, name string) observation {
	const reason = operatorsv1alpha1.CatalogSourceConfigMapError
	if err := r.follows.take(key); err != nil {
		return observation{problem: problemf(reason, "config map %s: %v", name, err)}
	}
	listers, done := r.follows.interests.Track(key, r.RBAC)
	defer done()
	again := r.follows.prepare(ctx, listers, key, name)
	cm, err := r.ConfigMaps(ctx, listers, types.NamespacedName{Namespace: key.Namespace, Name: name})
	if err != nil {
		seen := observation{problem: problemf(reason, "failed to get catalog config map %s: %v%s", name, err, howToAllow(err, key.Namespace, name)), recheckAfter: again}
		switch {
		case apierrors.IsNotFound(err):
			r.configMaps.drop(key)
			r.follows.Begin(key, "")
			return seen
		case scoped.ReasonOf(err) != "" || apierrors.IsForbidden(err): // a change to the account or to RBAC wakes the CatalogSource
			r.follows.unwatch(func(other types.NamespacedName) bool { return other == key })
			seen.recheckAfter = lastReload
		default:
			seen.retry = fmt.Errorf("get ConfigMap %s: %w", name, err)
		}
		seen.snapshot = r.configMaps.good(key, name)
		return seen
	}
	r.follows.Begin(key, cm.ResourceVersion)
	seen := inProcess(r.configMaps.load(ctx, key, cm), reason, fmt.Sprintf("config map %s", name))
	if seen.recheckAfter = again; r.configMaps.budget.isRefused(key) {
		// No event announces that the namespace, which has waited now, can use its share.
		seen.recheckAfter = cmp.Or(again, lastReload)
	}
	seen.configMap = &operatorsv1alpha1.ConfigMapResourceReference{
		Name:            cm.Name,
		Namespace:       cm.Namespace,
		UID:             cm.UID,
		ResourceVersion: cm.ResourceVersion,
	}
	return seen
}

// howToAllow describes how to allow the account to read a ConfigMap that the API server refused to return; "" for other
// errors. The command contains only names of objects that can exist.
func howToAllow(err error, namespace, name string) string {
	if !apierrors.IsForbidden(err) || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return fmt.Sprintf(". A catalog is read as the account of the namespace's OperatorGroup. An administrator of the namespace can run: "+
		"kubectl create role catalog-%[2]s -n %[1]s --verb=get,watch --resource=configmaps --resource-name=%[2]s, and bind the Role to the account", namespace, name)
}
