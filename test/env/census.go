package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Census is the set of the objects in a cluster, or of some of them. It contains objects of all kinds that the API server can
// list, except those that only record what happened.
type Census map[string]bool

// Selection selects the objects of a Census. The zero value selects all objects.
type Selection struct {
	// Group reports whether the objects of an API group may be selected. Those of other groups are not listed.
	Group func(group string) bool
	// Object reports whether an object is selected.
	Object func(metav1.Object) bool
}

// records are the resources whose objects only record what happened or are renewed periodically.
var records = []string{"events", "leases"}

// Census lists the metadata of the selected objects.
func (c *Cluster) Census(ctx context.Context, of Selection) (Census, error) {
	resources, err := c.listed()
	if err != nil {
		return nil, err
	}
	config := c.Config()
	config.WarningHandler = rest.NoWarnings{} // some of the resources are deprecated
	reader, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	out := Census{}
	for _, resource := range resources {
		if of.Group != nil && !of.Group(resource.Group) {
			continue
		}
		list, err := reader.Resource(resource).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue // the kind has been removed in the meantime
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		for i := range list.Items {
			if obj := &list.Items[i]; of.Object == nil || of.Object(obj) {
				out[strings.TrimPrefix(obj.Namespace+"/", "/")+resource.GroupResource().String()+"/"+obj.Name] = true
			}
		}
	}
	return out, nil
}

// listed returns the resources that the API server can list, except records.
func (c *Cluster) listed() (out []schema.GroupVersionResource, err error) {
	disco, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // the API of an operator that is being removed
		return nil, err
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && !slices.Contains(records, r.Name) {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

// Difference returns the objects in which two censuses differ, except those that the function ignores; nil ignores none.
func (c Census) Difference(after Census, ignore func(object string) bool) (out []string) {
	for object := range after {
		if !c[object] && (ignore == nil || !ignore(object)) {
			out = append(out, "+"+object)
		}
	}
	for object := range c {
		if !after[object] && (ignore == nil || !ignore(object)) {
			out = append(out, "-"+object)
		}
	}
	slices.Sort(out)
	return out
}
