package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// iconTypes lists the media types in which icons are served.
var iconTypes = []string{"image/svg+xml", "image/png", "image/jpeg", "image/gif"}

// defaultIcon is the icon of packages that have no icon of a known type.
const defaultIcon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="none" stroke="#6a6e73" stroke-width="1.5" ` +
	`d="M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9"/></svg>`

// iconREST is the storage of packagemanifests/icon.
type iconREST struct{ of *manifests }

var _ rest.Connecter = &iconREST{}

// New implements rest.Storage.
func (*iconREST) New() runtime.Object { return &packagesv1.PackageManifest{} }

// Destroy implements rest.Storage.
func (*iconREST) Destroy() {}

// NewConnectOptions implements rest.Connecter.
func (*iconREST) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// ConnectMethods implements rest.Connecter.
func (*iconREST) ConnectMethods() []string { return []string{http.MethodGet} }

// ProducesMIMETypes implements rest.StorageMetadata.
func (*iconREST) ProducesMIMETypes(string) []string { return iconTypes }

// ProducesObject implements rest.StorageMetadata.
func (*iconREST) ProducesObject(string) any { return nil }

// Connect implements rest.Connecter.
func (i *iconREST) Connect(ctx context.Context, name string, _ runtime.Object, _ rest.Responder) (http.Handler, error) {
	one, err := i.of.find(ctx, name)
	if err != nil {
		return nil, err
	}
	record, err := one.Record()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var icon packagesv1.Icon
	if at, ok := record.Uses[record.Manifest.Status.DefaultChannel]; ok {
		icon = record.Icons[at]
	}
	data, kind := decodeIcon(icon)
	return serveIcon(data, kind), nil
}

// decodeIcon returns the bytes and the media type of an icon, or the default icon if it is not a known image.
func decodeIcon(icon packagesv1.Icon) (data []byte, kind string) {
	kind = strings.ToLower(strings.TrimSpace(icon.Mediatype))
	data, err := base64.StdEncoding.DecodeString(icon.Base64Data)
	if err != nil || len(data) == 0 || !slices.Contains(iconTypes, kind) || !isImage(data, kind) {
		return []byte(defaultIcon), iconTypes[0]
	}
	return data, kind
}

// isImage reports whether the content of a raster image has the type that the catalog claims. SVG is not checked, because it
// cannot be recognized reliably.
func isImage(data []byte, kind string) bool {
	return kind == iconTypes[0] || http.DetectContentType(data) == kind
}

// serveIcon returns a handler that sends an icon. The bytes come from a catalog, so browsers must neither guess another
// type nor execute a script in them.
func serveIcon(data []byte, kind string) http.Handler {
	sum := sha256.Sum256(append([]byte(kind+"\n"), data...))
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("ETag", tag)
		header.Set("Cache-Control", "private, no-cache")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		if isKnown(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		header.Set("Content-Type", kind)
		header.Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data) // an error means that the client has disconnected
	})
}

// isKnown reports whether a tag is in an If-None-Match header.
func isKnown(known []string, tag string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(known, ","), ","), func(one string) bool {
		one = strings.TrimSpace(one)
		return one == "*" || strings.TrimPrefix(one, "W/") == tag
	})
}
