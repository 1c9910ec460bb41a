package catalogsource

import (
	"context"
	"errors"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/catalog/layer"
	"github.com/remit-olm/remit/pkg/catalog/server"
)

// ensureServer begins what is said of trouble with an image, in the words that tools know from OLM v0.
const ensureServer = "couldn't ensure registry server"

// notRunHere says what to do about an image that would have to be run for a tenant (security model, D6).
func notRunHere(image, global string) error {
	return fmt.Errorf("image %q: %w: it is a registry, which is run in the global catalog namespace %q only. "+
		"Use an image with file-based catalogs (opm render makes them), or have the CatalogSource made in namespace %q", image, layer.ErrNoCatalog, global, global)
}

// observeServer is for images of the global catalog namespace that are registries, and for those of which nobody knows yet what they
// are: then what runs is read and nothing is changed, so that a registry of images that is away takes no catalog along. seen is what
// the image itself has to be said of.
func (r *Reconciler) observeServer(ctx context.Context, cs *operatorsv1alpha1.CatalogSource, spec imageSpec, view imageView, seen observation) observation {
	key := client.ObjectKeyFromObject(cs)
	var run serving
	switch {
	case view.registry == "":
		run = r.servers.running(ctx, cs)
	case spec.interval == 0 || isDigest(spec.image):
		run = r.servers.ensure(ctx, cs, view.registry, nil)
	default:
		run = r.servers.ensure(ctx, cs, view.registry, view.polled)
	}
	seen.again = run.again
	if run.retry {
		seen.retry = run.err
	}
	if !run.any {
		r.connections.drop(key)
		if view.registry != "" {
			seen.state = connectivity.Connecting.String()
		}
		return seen.unlessKnown(run.err)
	}
	seen.service = types.NamespacedName{Namespace: key.Namespace, Name: server.ServiceName(key.Name)}
	seen.address = server.Address(key)
	state, listed, err := r.connections.ensure(key, "Pods of "+string(cs.UID), run.target)
	if err != nil {
		return seen.unlessKnown(err)
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

// unlessKnown adds an error to what is seen, unless there is a problem before it.
func (o observation) unlessKnown(err error) observation {
	if err != nil && o.problem == nil {
		o.problem = problemf(operatorsv1alpha1.CatalogSourceRegistryServerError, ensureServer+" - %v", err)
		o.state = connectivity.TransientFailure.String()
	}
	return o
}

// problem is the first thing that is wrong with a registry that is run, if anything; c is what is known of its content.
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
		return problemf(reason, "%s - %s; the Pod that it is to replace serves on", ensureServer, s.update)
	case s.target != "" && state == connectivity.TransientFailure:
		c.err = errors.New("its Pod does not answer")
		where = "couldn't connect to registry"
	default:
		return nil
	}
	return &problem{reason: reason, message: c.message(where)}
}
