package extension

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/catalog/fbc"
	"github.com/remit-olm/remit/pkg/extension/resolve"
	"github.com/remit-olm/remit/pkg/lib/names"
)

// maxContent is the maximum size of a response with the content of a ClusterCatalog, in bytes.
const maxContent = 256 << 20

// clusterCatalogs reads the ClusterCatalogs that the request selects, as the user, through the API server.
type clusterCatalogs struct {
	client.Reader
	// api sends requests to the Service that serves the content.
	api            rest.Interface
	remitNamespace string
	// served contains the names of the ClusterCatalogs whose content can be read. read sets it.
	served []string
}

// read returns the ClusterCatalogs with their objects of the requested package. If none contains the package, their content
// consists of the names of all packages, so that errors can suggest similar names.
func (r *clusterCatalogs) read(ctx context.Context, request resolve.Request) ([]resolve.Catalog, error) {
	var list olmv1.ClusterCatalogList
	if err := r.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list ClusterCatalogs: %w", err)
	}
	out := make([]resolve.Catalog, 0, len(list.Items))
	found := false
	for i := range list.Items {
		k := &list.Items[i]
		if k.Spec.AvailabilityMode == olmv1.AvailabilityModeUnavailable || k.DeletionTimestamp != nil {
			continue
		}
		one := resolve.Catalog{Name: k.Name, Labels: labels.Merge(k.Labels, labels.Set{olmv1.LabelMetadataName: k.Name}), Priority: k.Spec.Priority}
		if isServed(k) {
			r.served = append(r.served, k.Name)
		}
		if isServed(k) && (request.Selector == nil || request.Selector.Matches(labels.Set(one.Labels))) {
			var err error
			if one.Snapshot, err = r.packageOf(ctx, k.Name, request.Package); err != nil {
				return nil, fmt.Errorf("read the content of ClusterCatalog %q: %w; alternatively, specify a catalog with --catalog", k.Name, err)
			}
			found = found || one.Snapshot.Packages[request.Package] != nil
		}
		out = append(out, one)
	}
	if found {
		return out, nil
	}
	return out, r.addNames(ctx, out)
}

func isServed(k *olmv1.ClusterCatalog) bool {
	return meta.IsStatusConditionTrue(k.Status.Conditions, olmv1.TypeServing)
}

// packageOf reads the objects of one package. The object of schema olm.package requires a separate request, because it names the
// package in its field name instead of the field package.
func (r *clusterCatalogs) packageOf(ctx context.Context, catalogName, pkg string) (*catalog.Snapshot, error) {
	head, err := r.get(ctx, catalogName, metas, map[string]string{"schema": "olm.package", "name": pkg})
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return &catalog.Snapshot{}, nil
	}
	objects, err := r.get(ctx, catalogName, metas, map[string]string{"package": pkg})
	if err != nil {
		return nil, err
	}
	return loaded(ctx, catalogName, slices.Concat(catalog.EndLine(head), objects))
}

// loaded returns a Snapshot with the given objects, which are JSON lines.
func loaded(ctx context.Context, catalogName string, objects []byte) (*catalog.Snapshot, error) {
	snap, err := fbc.Loader{AnyDefault: true}.FromFiles(ctx, map[string][]byte{"catalog.json": objects})
	if snap != nil {
		snap.Key.Name = catalogName
	}
	return snap, err
}

// addNames sets the content of the catalogs to packages without bundles.
func (r *clusterCatalogs) addNames(ctx context.Context, catalogs []resolve.Catalog) error {
	for i := range catalogs {
		if catalogs[i].Snapshot == nil {
			continue
		}
		lines, err := r.get(ctx, catalogs[i].Name, metas, map[string]string{"schema": "olm.package"})
		if err != nil {
			return err
		}
		snap := &catalog.Snapshot{Packages: map[string]*catalog.Package{}}
		scanner := bufio.NewScanner(bytes.NewReader(lines))
		scanner.Buffer(nil, maxContent)
		for scanner.Scan() {
			var p struct {
				Name string `json:"name"`
			}
			if json.Unmarshal(scanner.Bytes(), &p) == nil && catalog.CheckName(p.Name) == nil {
				snap.Packages[p.Name] = &catalog.Package{Name: p.Name}
			}
		}
		catalogs[i].Snapshot = snap
	}
	return nil
}

// metas is the path at which a catalog's objects that match a query are served.
const metas = "api/v1/metas"

// get reads the objects of a catalog at a path, as JSON lines.
func (r *clusterCatalogs) get(ctx context.Context, catalogName, path string, query map[string]string) ([]byte, error) {
	// Without Timeout(0), the client could add a parameter to the query, and the Service would reject the request.
	req := r.api.Get().Timeout(0).AbsPath("/api/v1/namespaces", r.remitNamespace, "services", "https:"+names.ServiceCatalogContent+":https", "proxy",
		"catalogs", catalogName, path)
	for key, value := range query {
		req = req.Param(key, value)
	}
	body, err := req.Stream(ctx)
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w: this requires get on services/proxy of Service %s/%s", err, r.remitNamespace, names.ServiceCatalogContent)
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxContent+1))
	if err == nil && len(data) > maxContent {
		err = errors.New("the response is too large")
	}
	return data, err
}
