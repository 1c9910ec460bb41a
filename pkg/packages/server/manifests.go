package server

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/table"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// manifests is the storage of packagemanifests.
type manifests struct {
	store *store.Store
	room  *room
}

var (
	_ rest.Getter               = &manifests{}
	_ rest.Lister               = &manifests{}
	_ rest.Watcher              = &manifests{}
	_ rest.Scoper               = &manifests{}
	_ rest.SingularNameProvider = &manifests{}
)

// New implements rest.Storage.
func (*manifests) New() runtime.Object { return &packagesv1.PackageManifest{} }

// NewList implements rest.Lister.
func (*manifests) NewList() runtime.Object { return &packagesv1.PackageManifestList{} }

// Destroy implements rest.Storage.
func (*manifests) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*manifests) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (*manifests) GetSingularName() string { return "packagemanifest" }

// Get implements rest.Getter.
func (m *manifests) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	one, err := m.find(ctx, name)
	if err != nil {
		return nil, err
	}
	out, err := manifest(one.Entry, one.View)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return out, nil
}

// viewed is a package as it appears in a view.
type viewed struct {
	*store.Entry
	store.View
}

// cost implements sized.
func (v viewed) cost() int64 { return v.Cost }

// find returns the package with a name that is visible in the namespace of a request, when there is room for it. If several
// catalogs contain the package, find returns the one that resolution prefers.
func (m *manifests) find(ctx context.Context, name string) (viewed, error) {
	if err := m.complete(); err != nil {
		return viewed{}, err
	}
	v := store.View{Namespace: genericrequest.NamespaceValue(ctx), Name: name}
	return reserve(ctx, m.room, func() (viewed, error) {
		found, _ := m.store.List(v)
		if len(found) == 0 {
			return viewed{}, apierrors.NewNotFound(resource(packagesv1.ResourcePackageManifests), name)
		}
		return viewed{found[0], v}, nil
	})
}

// complete returns an error until all catalogs have been delivered, because until then a list would be incomplete.
func (m *manifests) complete() error {
	if m.store.IsComplete() {
		return nil
	}
	err := apierrors.NewServiceUnavailable("the catalog program has not sent the catalogs yet")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}

// List implements rest.Lister.
func (m *manifests) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if err := m.complete(); err != nil {
		return nil, err
	}
	s, err := m.selection(ctx, options)
	if err != nil {
		return nil, err
	}
	p, err := reserve(ctx, m.room, func() (paged, error) {
		found, now := m.store.List(s.View)
		return page(options, s, found, now)
	})
	if err != nil {
		return nil, err
	}
	out := &packagesv1.PackageManifestList{ListMeta: p.meta, Items: make([]packagesv1.PackageManifest, 0, len(p.entries))}
	for _, e := range p.entries {
		obj, err := manifest(e, s.View)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		out.Items = append(out.Items, *obj)
	}
	return out, ctx.Err()
}

// selection contains the selectors of a list or watch.
type selection struct {
	store.View
	labels labels.Selector
	fields fields.Selector
}

// maxSelected is the number of requirements and values in the selectors of a request. Each of them is compared with each package.
const maxSelected = 50

// selection returns the selectors in the options; its view contains the requested name and namespace.
func (m *manifests) selection(ctx context.Context, options *metainternalversion.ListOptions) (selection, error) {
	s := selection{View: store.View{Namespace: genericrequest.NamespaceValue(ctx)}, labels: labels.Everything(), fields: fields.Everything()}
	if options == nil {
		return s, nil
	}
	if options.LabelSelector != nil {
		s.labels = options.LabelSelector
	}
	if options.FieldSelector != nil {
		s.fields = options.FieldSelector
		if name, ok := s.fields.RequiresExactMatch("metadata.name"); ok {
			s.Name = name
		}
	}
	if s.size() > maxSelected {
		return s, apierrors.NewBadRequest(fmt.Sprintf("the selectors have more than %d requirements and values", maxSelected))
	}
	s.Match = func(e *store.Entry) bool { return s.matches(e.Name, s.NamespaceOf(e.Catalog()), e.Labels()) }
	return s, nil
}

// size returns the number of requirements and values.
func (s selection) size() int {
	all, _ := s.labels.Requirements()
	n := len(all) + len(s.fields.Requirements())
	for _, r := range all {
		n += r.Values().Len()
	}
	return n
}

func (s selection) matches(name, namespace string, all labels.Labels) bool {
	return s.fields.Matches(fields.Set{"metadata.name": name, "metadata.namespace": namespace}) && s.labels.Matches(all)
}

// ConvertToTable implements rest.TableConvertor. Unlike a list, a table is encoded in memory as a whole, so it can only contain the
// complete objects of a chunk.
func (*manifests) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	o, ok := options.(*metav1.TableOptions)
	if ok && o.IncludeObject == metav1.IncludeObject && budget.Of(object).Memory > maxPageBytes {
		return nil, apierrors.NewRequestEntityTooLargeError("a table with so many complete objects needs too much memory: request it in chunks (limit and continue), or without a table, such as with kubectl get -o json; kubectl --sort-by needs all objects at once")
	}
	if !ok || !o.NoHeaders {
		out.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: "The name of the package."},
			{Name: "Catalog", Type: "string", Description: "The display name of the CatalogSource."},
			{Name: "Age", Type: "string", Description: "The age of the CatalogSource."},
		}
	}
	var err error
	if l, ok := object.(*packagesv1.PackageManifestList); ok {
		out.ListMeta = l.ListMeta
	} else if one, ok := object.(*packagesv1.PackageManifest); ok {
		out.ResourceVersion = one.ResourceVersion
	}
	out.Rows, err = table.MetaToTableRow(object, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		m, ok := obj.(*packagesv1.PackageManifest)
		if !ok {
			return nil, fmt.Errorf("unexpected object %T", obj)
		}
		return []any{name, catalogName(m), age}, nil
	})
	return out, err
}

// catalogName returns the display name of the catalog or, if it has none, its name.
func catalogName(m *packagesv1.PackageManifest) string {
	if m.Status.CatalogSourceDisplayName != "" {
		return m.Status.CatalogSourceDisplayName
	}
	return m.Status.CatalogSource
}

// parseVersion returns the version in options; "" is zero.
func parseVersion(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", text))
	}
	return v, nil
}
