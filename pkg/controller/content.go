package controller

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/disk"
	"github.com/remit-olm/remit/pkg/image"
)

// content contains what a program uses to read, store and publish the content of catalogs and bundles.
type content struct {
	images *image.Client
	disk   *disk.Store
	store  *catalog.Store
}

// newContent opens the cache directory, which is closed when the program ends.
func newContent(mgr ctrl.Manager, options image.Options, directory string) (content, error) {
	images, err := image.New(options)
	if err != nil {
		return content{}, err
	}
	cache, err := openCache(directory)
	if err != nil {
		return content{}, fmt.Errorf("open cache directory: %w", err)
	}
	if err := mgr.Add(closeAtExit(cache)); err != nil {
		return content{}, fmt.Errorf("add the cache directory: %w", err)
	}
	return content{images: images, disk: cache, store: &catalog.Store{}}, nil
}

func openCache(dir string) (*disk.Store, error) {
	if dir == "" {
		return disk.OpenDefault()
	}
	return disk.Open(dir, 0)
}

// closeAtExit closes the cache directory when the program ends.
func closeAtExit(cache *disk.Store) manager.RunnableFunc {
	return func(ctx context.Context) error {
		<-ctx.Done()
		return cache.Close()
	}
}

// published returns a source that enqueues the requests that a change to a catalog affects.
func published(store *catalog.Store, concerned func(context.Context, catalog.Change) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		store.Watch(func(change catalog.Change) {
			for _, req := range concerned(ctx, change) {
				queue.Add(req)
			}
		})
		return nil
	})
}

// inNamespace returns a function that lists the requests for the namespace of a catalog, or for all namespaces if the
// catalog is global.
func inNamespace(global string, concerned func(ctx context.Context, namespace string) []reconcile.Request) func(context.Context, catalog.Change) []reconcile.Request {
	return func(ctx context.Context, change catalog.Change) []reconcile.Request {
		namespace := change.Catalog.Namespace
		if namespace == global {
			namespace = metav1.NamespaceAll
		}
		return concerned(ctx, namespace)
	}
}
