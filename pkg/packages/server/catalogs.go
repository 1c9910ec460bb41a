package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/table"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// catalogs is the storage of packagecatalogs. receiving is sendTimeout, except in tests.
type catalogs struct {
	store     *store.Store
	receiving time.Duration
}

var (
	_ rest.Lister               = &catalogs{}
	_ rest.Watcher              = &catalogs{}
	_ rest.Scoper               = &catalogs{}
	_ rest.SingularNameProvider = &catalogs{}
)

// New implements rest.Storage.
func (*catalogs) New() runtime.Object { return &packagesv1.PackageCatalog{} }

// NewList implements rest.Lister.
func (*catalogs) NewList() runtime.Object { return &packagesv1.PackageCatalogList{} }

// Destroy implements rest.Storage.
func (*catalogs) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*catalogs) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (*catalogs) GetSingularName() string { return "packagecatalog" }

// List implements rest.Lister. The list is short, so selectors are not supported.
func (c *catalogs) List(ctx context.Context, _ *metainternalversion.ListOptions) (runtime.Object, error) {
	all, now := c.store.Catalogs()
	namespace := genericrequest.NamespaceValue(ctx)
	out := &packagesv1.PackageCatalogList{ListMeta: metav1.ListMeta{ResourceVersion: version(now)}, Items: []packagesv1.PackageCatalog{}}
	for _, one := range all {
		if namespace == "" || namespace == one.Source.Namespace {
			out.Items = append(out.Items, *catalogObject(one))
		}
	}
	return out, nil
}

func catalogObject(c *store.Catalog) *packagesv1.PackageCatalog {
	out := &packagesv1.PackageCatalog{ObjectMeta: metav1.ObjectMeta{
		Name: c.Source.Name, Namespace: c.Source.Namespace, UID: uid(string(c.Source.UID), ""), ResourceVersion: version(c.Version), CreationTimestamp: c.Source.Created,
	}}
	out.APIVersion, out.Kind = packagesv1.GroupVersion.String(), packagesv1.KindPackageCatalog
	out.Status = packagesv1.PackageCatalogStatus{Digest: c.Digest, Packages: c.Len(), CatalogSourceUID: string(c.Source.UID)}
	return out
}

// Watch implements rest.Watcher. The watch sends no events: the catalog program uses it only to detect that the connection has
// ended.
func (c *catalogs) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	want, err := parseVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if _, _, err := c.store.Changes(expired(ctx), store.View{}, want); errors.Is(err, store.ErrExpired) && want != 0 {
		return nil, apierrors.NewResourceExpired("the server has restarted: list again")
	}
	return silent(ctx), nil
}

// expired returns a child context that is already canceled.
func expired(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// silent returns a watch without events, which ends with the context.
func silent(ctx context.Context) watch.Interface {
	events := make(chan watch.Event)
	context.AfterFunc(ctx, func() { close(events) })
	return watch.NewProxyWatcher(events)
}

// ConvertToTable implements rest.TableConvertor.
func (*catalogs) ConvertToTable(_ context.Context, object, _ runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "The name of the CatalogSource."},
		{Name: "Packages", Type: "integer", Description: "The number of packages."},
		{Name: "Age", Type: "string", Description: "The age of the CatalogSource."},
	}}
	var err error
	if l, ok := object.(*packagesv1.PackageCatalogList); ok {
		out.ListMeta = l.ListMeta
	}
	out.Rows, err = table.MetaToTableRow(object, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		c, ok := obj.(*packagesv1.PackageCatalog)
		if !ok {
			return nil, fmt.Errorf("unexpected object %T", obj)
		}
		return []any{name, c.Status.Packages, age}, nil
	})
	return out, err
}

// content is the storage of packagecatalogs/content and packagecatalogs/complete.
type content struct {
	methods []string
	serve   func(key types.NamespacedName, w http.ResponseWriter, r *http.Request) error
}

var _ rest.Connecter = &content{}

// New implements rest.Storage.
func (*content) New() runtime.Object { return &packagesv1.PackageCatalog{} }

// Destroy implements rest.Storage.
func (*content) Destroy() {}

// NewConnectOptions implements rest.Connecter.
func (*content) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// ConnectMethods implements rest.Connecter.
func (c *content) ConnectMethods() []string { return c.methods }

// Connect implements rest.Connecter.
func (c *content) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	key := types.NamespacedName{Namespace: genericrequest.NamespaceValue(ctx), Name: name}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.serve(key, w, r); err != nil {
			responder.Error(err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}), nil
}

// newContent returns the storage to which the catalog program sends catalogs.
func newContent(c *catalogs) *content {
	return &content{methods: []string{http.MethodPut, http.MethodDelete}, serve: c.write}
}

// newComplete returns the storage to which the catalog program reports that it has sent all catalogs.
func newComplete(c *catalogs) *content {
	return &content{methods: []string{http.MethodPut}, serve: func(types.NamespacedName, http.ResponseWriter, *http.Request) error {
		c.store.SetComplete()
		return nil
	}}
}

// sendTimeout limits the time for receiving a catalog.
const sendTimeout = time.Minute

func (c *catalogs) write(key types.NamespacedName, w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodDelete {
		c.store.Delete(key)
		return nil
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.receiving)) // without a deadline, the timeout of the request applies
	err := c.store.Put(key, r.Body)
	switch {
	case errors.Is(err, store.ErrFull):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
