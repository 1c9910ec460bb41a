package catalogsource

import (
	"cmp"
	"context"
	"errors"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/server"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
)

// ensureServer is the prefix of messages about an image. It is the same as in OLM v0, because tools match on it.
const ensureServer = "couldn't ensure registry server"

// withoutServers adds the reason why an image that is a registry cannot run. Errors other than refused are retried.
func (o observation) withoutServers(err error, isRegistry bool) observation {
	if err == nil {
		return o
	}
	if !kit.Is[refused](err) {
		o.retry = err
	}
	if isRegistry {
		o.state = connectivity.TransientFailure.String()
		o.problem = cmp.Or(o.problem, content{good: o.snapshot, err: err}.problem(operatorsv1alpha1.CatalogSourceRegistryServerError, ensureServer))
	}
	return o
}

// observeServer observes images that are registries, and images that could not be read yet. For an image that could not be
// read, it only reads the existing Pods and changes nothing, so that an outage of the image registry does not affect
// running catalogs; if no Pod runs the image by digest, it runs the image by tag where that is allowed (docs/adr/0074). seen is the observation of the image itself.
func (r *Reconciler) observeServer(ctx context.Context, at *servers, cs *operatorsv1alpha1.CatalogSource, spec imageSpec, view imageView, seen observation) observation {
	key := client.ObjectKeyFromObject(cs)
	run := at.run(ctx, cs, spec, view)
	seen.recheckAfter = run.recheckAfter
	if run.retry {
		seen.retry = run.err
	}
	if !run.any {
		r.connections.drop(key)
		if view.registry != "" {
			seen.state = connectivity.Connecting.String()
		}
		return seen.withError(run.err)
	}
	seen.service = types.NamespacedName{Namespace: key.Namespace, Name: server.ServiceName(key.Name)}
	seen.address = server.Address(key)
	state, listed, err := r.connections.ensure(key, "Pods of "+string(cs.UID), run.target)
	if err != nil {
		return seen.withError(err)
	}
	if listed.good != nil {
		seen.snapshot = listed.good
	}
	seen.state = state.String()
	if run.target == "" {
		seen.state = connectivity.Connecting.String()
	}
	if view.err != nil {
		seen.problem.message = content{good: seen.snapshot, err: view.err}.message(ensureServer)
	} else {
		seen.problem = run.problem(state, content{good: seen.snapshot, err: listed.err})
	}
	if run.target == "" && seen.problem != nil {
		seen.state = connectivity.TransientFailure.String()
	}
	return seen
}

// run runs a registry, or reads the existing Pods, as observeServer describes.
func (s *servers) run(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, spec imageSpec, view imageView) serving {
	pinned := registryImage{reference: view.registry, user: view.user}
	switch {
	case view.unread && s.mayRunUnread(ctx, cs):
		return s.ensure(ctx, cs, registryImage{reference: spec.image}, nil)
	case view.registry == "":
		return s.running(ctx, cs)
	case spec.interval == 0 || image.IsDigest(spec.image):
		return s.ensure(ctx, cs, pinned, nil)
	}
	return s.ensure(ctx, cs, pinned, view.polled)
}

// withError adds an error to the observation, unless it already has a problem.
func (o observation) withError(err error) observation {
	if err != nil && o.problem == nil {
		o.problem = problemf(operatorsv1alpha1.CatalogSourceRegistryServerError, ensureServer+" - %v", err)
		o.state = connectivity.TransientFailure.String()
	}
	return o
}

// problem returns the most important problem of a running registry, or nil. c is its known content.
func (s serving) problem(state connectivity.State, c content) *problem {
	const reason = operatorsv1alpha1.CatalogSourceRegistryServerError
	where := ensureServer
	switch {
	case s.err != nil:
		c.err = s.err
	case c.err != nil:
		where = "couldn't list registry"
	case s.trouble != "":
		c.err = errors.New(s.trouble)
	case s.update != "":
		return problemf(reason, "%s - %s; the current Pod continues to serve", ensureServer, s.update)
	case s.target != "" && state == connectivity.TransientFailure:
		c.err = errors.New("the registry Pod does not respond")
		where = "couldn't connect to registry"
	default:
		return nil
	}
	return c.problem(reason, where)
}
