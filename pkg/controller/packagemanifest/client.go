package packagemanifest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// remote implements Server with requests to the kube-apiserver, which forwards them.
type remote struct {
	rest rest.Interface
	home string
}

// NewServer returns a client for package-server. home is a namespace that exists.
func NewServer(config *rest.Config, client *http.Client, home string) (Server, error) {
	config = rest.CopyConfig(config)
	version := packagesv1.GroupVersion
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &version, "/apis", clientgoscheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	made, err := rest.RESTClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("client for package-server: %w", err)
	}
	return &remote{rest: made, home: home}, nil
}

// Catalogs implements Server.
func (r *remote) Catalogs(ctx context.Context) (map[types.NamespacedName]Known, string, error) {
	text, err := r.rest.Get().Resource(packagesv1.ResourcePackageCatalogs).Do(ctx).Raw()
	if err != nil {
		return nil, "", fmt.Errorf("list catalogs: %w", err)
	}
	var list packagesv1.PackageCatalogList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, "", fmt.Errorf("list catalogs: %w", err)
	}
	out := make(map[types.NamespacedName]Known, len(list.Items))
	for _, c := range list.Items {
		out[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = Known{Digest: c.Status.Digest, UID: types.UID(c.Status.CatalogSourceUID)}
	}
	return out, list.ResourceVersion, nil
}

// Wait implements Server.
func (r *remote) Wait(ctx context.Context, version string) error {
	events, err := r.rest.Get().Resource(packagesv1.ResourcePackageCatalogs).Param("watch", "true").Param("resourceVersion", version).Stream(ctx)
	if err != nil {
		return fmt.Errorf("watch catalogs: %w", err)
	}
	defer events.Close()
	_, err = io.Copy(io.Discard, events)
	return err
}

// Put implements Server.
func (r *remote) Put(ctx context.Context, key types.NamespacedName, body io.Reader) error {
	return r.content(r.rest.Put(), key).Body(body).Do(ctx).Error()
}

// Delete implements Server.
func (r *remote) Delete(ctx context.Context, key types.NamespacedName) error {
	return r.content(r.rest.Delete(), key).Do(ctx).Error()
}

func (*remote) content(request *rest.Request, key types.NamespacedName) *rest.Request {
	return request.Namespace(key.Namespace).Resource(packagesv1.ResourcePackageCatalogs).Name(key.Name).SubResource(packagesv1.SubresourceContent)
}

// Complete implements Server.
func (r *remote) Complete(ctx context.Context) error {
	return r.rest.Put().Namespace(r.home).Resource(packagesv1.ResourcePackageCatalogs).Name("all").SubResource(packagesv1.SubresourceComplete).Do(ctx).Error()
}
