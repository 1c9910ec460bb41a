package server

import (
	"crypto/sha256"
	"strconv"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
	"github.com/remit-olm/remit/pkg/packages/store"
)

// manifest returns the PackageManifest of an entry as it appears in a view. As in OLM, it contains no icons: clients read
// packagemanifests/icon.
func manifest(e *store.Entry, v store.View) (*packagesv1.PackageManifest, error) {
	record, err := e.Record()
	if err != nil {
		return nil, err
	}
	out := &record.Manifest
	out.ObjectMeta = meta(e, v)
	out.APIVersion, out.Kind = packagesv1.GroupVersion.String(), packagesv1.KindPackageManifest
	return out, nil
}

func meta(e *store.Entry, v store.View) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: e.Name, Namespace: v.NamespaceOf(e.Catalog()), Labels: e.Labels().Map(), CreationTimestamp: e.Source.Created,
		ResourceVersion: version(e.Version), UID: uid(string(e.Source.UID), e.Name),
	}
}

func version(v uint64) string { return strconv.FormatUint(v, 10) }

// uid returns a UID that is the same whenever the same package of the same CatalogSource is served.
func uid(source, name string) types.UID {
	sum := sha256.Sum256([]byte(source + "/" + name))
	id, err := uuid.FromBytes(sum[:16])
	if err != nil {
		return "" // not reached: the length is correct
	}
	return types.UID(id.String())
}

// removed returns the last known state of a package that was removed.
func removed(c store.Change, v store.View) *packagesv1.PackageManifest {
	out := &packagesv1.PackageManifest{ObjectMeta: metav1.ObjectMeta{
		Name: c.Package, Namespace: v.NamespaceOf(c.Catalog), Labels: c.Before.Map(), ResourceVersion: version(c.Version),
	}}
	out.APIVersion, out.Kind = packagesv1.GroupVersion.String(), packagesv1.KindPackageManifest
	out.Status = packagesv1.PackageManifestStatus{
		CatalogSource: c.Catalog.Name, CatalogSourceNamespace: c.Catalog.Namespace, PackageName: c.Package, Channels: []packagesv1.PackageChannel{},
	}
	return out
}
