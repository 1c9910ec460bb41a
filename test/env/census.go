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

// Census is the set of the objects in a cluster, or in some namespaces of it. It contains objects of all kinds that the API
// server can list, except those that only record what happened.
type Census map[string]bool

// records are the resources whose objects only record what happened or are renewed periodically.
var records = []string{"events", "leases"}

// Census lists the metadata of all objects: those in the namespaces, or of the whole cluster if there are none.
func (c *Cluster) Census(ctx context.Context, namespaces ...string) (Census, error) {
	resources, err := c.listed(len(namespaces) > 0)
	if err != nil {
		return nil, err
	}
	config := c.Config()
	config.WarningHandler = rest.NoWarnings{} // some of the resources are deprecated
	reader, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	out := Census{}
	for _, resource := range resources {
		for _, namespace := range namespaces {
			if err := out.add(ctx, reader.Resource(resource).Namespace(namespace), resource.GroupResource()); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// listed returns the resources that the API server can list, except records.
func (c *Cluster) listed(onlyNamespaced bool) (out []schema.GroupVersionResource, err error) {
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
			if slices.Contains(r.Verbs, "list") && !slices.Contains(records, r.Name) && (r.Namespaced || !onlyNamespaced) {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

func (c Census) add(ctx context.Context, from metadata.ResourceInterface, resource schema.GroupResource) error {
	list, err := from.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil // the kind has been removed in the meantime
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	for _, obj := range list.Items {
		c[strings.TrimPrefix(obj.Namespace+"/", "/")+resource.String()+"/"+obj.Name] = true
	}
	return nil
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
