package server

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	packagesv1 "github.com/remit-olm/remit/api/packages/v1"
)

// scheme contains the served types. There is no separate internal version, because nothing is
// stored.
var (
	scheme         = newScheme()
	codecs         = serializer.NewCodecFactory(scheme)
	parameterCodec = runtime.NewParameterCodec(scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	internal := schema.GroupVersion{Group: packagesv1.GroupVersion.Group, Version: runtime.APIVersionInternal}
	if err := packagesv1.AddToScheme(s); err != nil {
		panic(err) // registering these types does not fail
	}
	s.AddKnownTypes(internal, &packagesv1.PackageManifest{}, &packagesv1.PackageManifestList{}, &packagesv1.PackageCatalog{}, &packagesv1.PackageCatalogList{})
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	return s
}

// compact encodes objects as JSON without indentation, or as protobuf. As YAML, or with indentation, a list would be encoded in
// memory as a whole, and take up to a hundred times the memory of its objects: in a list of {}, each entry gets its own line.
type compact struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c compact) SupportedMediaTypes() []runtime.SerializerInfo {
	var out []runtime.SerializerInfo
	for _, info := range c.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeYAML {
			info.PrettySerializer = nil
			out = append(out, info)
		}
	}
	return out
}

func resource(name string) schema.GroupResource {
	return schema.GroupResource{Group: packagesv1.GroupVersion.Group, Resource: name}
}
