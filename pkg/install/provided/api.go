package provided

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/bundle"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// API is an API that a ClusterServiceVersion owns.
type API struct {
	Kind, Version, Group string
	// Plural is the name of the API's resource.
	Plural string
	// Served is true if an APIService serves the API, and false if a CustomResourceDefinition defines it.
	Served bool
}

// String returns the API as in the annotation olm.providedAPIs: <kind>.<version>.<group>.
func (a API) String() string { return a.Kind + "." + a.Version + "." + a.Group }

// Resource returns "<plural>.<group>", which is the name of the CustomResourceDefinition if there is one.
func (a API) Resource() string { return a.Plural + "." + a.Group }

// Of returns the APIs that a ClusterServiceVersion owns, sorted and unique: only those in the first bundle.MaxOwned entries of each
// list, because a ClusterServiceVersion with more of them is not installed.
func Of(csv *operatorsv1alpha1.ClusterServiceVersion) []API {
	return sorted(append(defined(csv), served(csv)...))
}

// defined returns the APIs that a ClusterServiceVersion owns and that CustomResourceDefinitions define, in the order of their list.
func defined(csv *operatorsv1alpha1.ClusterServiceVersion) (out []API) {
	crds := csv.Spec.CustomResourceDefinitions.Owned
	for _, d := range crds[:min(len(crds), bundle.MaxOwned)] {
		plural, group, ok := strings.Cut(d.Name, ".")
		if ok && d.Kind != "" && d.Version != "" {
			out = append(out, API{Kind: d.Kind, Version: d.Version, Group: group, Plural: plural})
		}
	}
	return out
}

// served returns the APIs that a ClusterServiceVersion owns and that APIServices serve, in the order of their list.
func served(csv *operatorsv1alpha1.ClusterServiceVersion) (out []API) {
	services := csv.Spec.APIServiceDefinitions.Owned
	for _, d := range services[:min(len(services), bundle.MaxOwned)] {
		if d.Kind != "" && d.Version != "" && d.Group != "" {
			out = append(out, API{Kind: d.Kind, Version: d.Version, Group: d.Group, Plural: d.Name, Served: true})
		}
	}
	return out
}

// Same reports whether two ClusterServiceVersions own the same APIs in the same order. It sorts nothing, because event handlers call it.
func Same(a, b *operatorsv1alpha1.ClusterServiceVersion) bool {
	return slices.Equal(defined(a), defined(b)) && slices.Equal(served(a), served(b))
}

// sorted sorts APIs by their texts, and removes those with the same text.
func sorted(apis []API) []API {
	type named struct {
		API
		text string
	}
	all := make([]named, 0, len(apis))
	for _, api := range apis {
		all = append(all, named{api, api.String()})
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.Plural, b.Plural)) })
	apis = apis[:0]
	for i := range all {
		if i == 0 || all[i].text != all[i-1].text {
			apis = append(apis, all[i].API)
		}
	}
	return apis
}

// Union returns the APIs of all ClusterServiceVersions, sorted and unique.
func Union(csvs []operatorsv1alpha1.ClusterServiceVersion) []API {
	var out []API
	for i := range csvs {
		out = append(out, Of(&csvs[i])...)
	}
	return sorted(out)
}

// Annotation returns the value of the annotation olm.providedAPIs.
func Annotation(apis []API) string {
	out := make([]string, 0, len(apis))
	for _, api := range apis {
		out = append(out, api.String())
	}
	return strings.Join(out, ",")
}

// Allows reports whether the annotation olm.providedAPIs of the ClusterServiceVersion's own OperatorGroup lists all of
// these APIs. It applies to groups with spec.staticProvidedAPIs.
func Allows(annotation string, apis []API) bool {
	listed := map[string]bool{}
	for name := range strings.SplitSeq(annotation, ",") {
		listed[strings.TrimSpace(name)] = true
	}
	return !slices.ContainsFunc(apis, func(a API) bool { return !listed[a.String()] })
}

// index and resourceIndex index ClusterServiceVersions, except copies, by the APIs that they own and by the resources of these APIs.
const (
	index         = "remit.dev/provided-api"
	resourceIndex = "remit.dev/provided-resource"
	// maxIndexed is the number of APIs for which a ClusterServiceVersion is indexed. One that lists more has only the key manyAPIs: an
	// index is updated while nothing can read the cache, also by an update that only changes a label, and 4,000 keys take 20 ms.
	maxIndexed = 200
	manyAPIs   = "*" // neither an API nor a resource
)

// servesIndex indexes Deployments by the namespaces that the annotation of their Pods lists, or by servesAll.
const (
	servesIndex = "remit.dev/serves"
	servesAll   = "*" // not the name of a namespace
	// maxKeys is the number of namespaces for which a Deployment is indexed. One that serves more is indexed as if it served all,
	// because an index needs much more memory than the annotation, which any user can write.
	maxKeys = 20
)

// Index adds the indexes that Conflicts requires.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	for name, keyOf := range map[string]func(API) string{index: API.String, resourceIndex: API.Resource} {
		err := indexer.IndexField(ctx, &operatorsv1alpha1.ClusterServiceVersion{}, name, func(obj client.Object) []string { return keys(obj, keyOf) })
		if err != nil {
			return fmt.Errorf("index ClusterServiceVersions by API: %w", err)
		}
	}
	err := indexer.IndexField(ctx, &appsv1.Deployment{}, servesIndex, func(obj client.Object) []string {
		if d, ok := obj.(*appsv1.Deployment); ok {
			return serves(d)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index Deployments by the namespaces that they serve: %w", err)
	}
	return nil
}

// keys returns the keys of the APIs of a ClusterServiceVersion, without duplicates, manyAPIs if they are too many, or nil for a copy.
func keys(obj client.Object, keyOf func(API) string) (out []string) {
	csv, ok := obj.(*operatorsv1alpha1.ClusterServiceVersion)
	if _, copied := obj.GetLabels()[names.LabelCopiedFrom]; !ok || copied {
		return nil
	}
	if len(csv.Spec.CustomResourceDefinitions.Owned)+len(csv.Spec.APIServiceDefinitions.Owned) > maxIndexed {
		return []string{manyAPIs}
	}
	for _, api := range Of(csv) {
		out = append(out, keyOf(api))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// serves returns the keys of a Deployment in servesIndex.
func serves(d *appsv1.Deployment) []string {
	namespaces := servedBy(d)
	if len(namespaces) > maxKeys || slices.Contains(namespaces, scoped.AllNamespaces) {
		return []string{servesAll}
	}
	return namespaces
}

// servedBy returns the targets for which a Deployment was written, or nil if its Pods have no such annotation. The annotation has at
// most MaxTargets namespaces, unless someone else has edited it.
func servedBy(d *appsv1.Deployment) []string {
	targets, annotated := d.Spec.Template.Annotations[names.AnnotationTargetNamespaces]
	if !annotated {
		return nil
	}
	return strings.SplitN(targets, ",", scoped.MaxTargets+1)
}
