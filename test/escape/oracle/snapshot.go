package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// noise are resources that the control plane writes at any time, or as a consequence of
// objects in any namespace.
var noise = map[schema.GroupResource]bool{
	{Resource: "events"}: true,
	{Group: "coordination.k8s.io", Resource: "leases"}: true, // heartbeats, leaders
	{Resource: "nodes"}: true, // heartbeats
	{Group: "networking.k8s.io", Resource: "ipaddresses"}: true, // one for each Service
	{Resource: "componentstatuses"}:                       true, // no objects
}

// duplicates are the core group's events under another group: the same objects with the same text, thousands of them late in a run.
var duplicates = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}

// schemas are resources of which only metadata is compared: they are large, and contain no text of Remit.
var schemas = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// Key names an object; the namespace is "" for one of the whole cluster.
type Key struct {
	schema.GroupResource
	Namespace, Name string
}

func (k Key) String() string {
	return strings.TrimPrefix(k.GroupResource.String()+" "+k.Namespace+"/"+k.Name, " ")
}

// version identifies one state of an object.
type version struct{ uid, resourceVersion string }

// Snapshot is the state of a whole cluster at one moment.
type Snapshot struct {
	objects map[Key]version
	// bodies are the lists as the API server sent them.
	bodies map[schema.GroupResource][]byte
}

// take lists every resource that can be listed.
func take(ctx context.Context, client *discovery.DiscoveryClient) (*Snapshot, error) {
	groups, err := client.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("discover resources: %w", err)
	}
	s := &Snapshot{objects: map[Key]version{}, bodies: map[schema.GroupResource][]byte{}}
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range group.APIResources {
			r := &group.APIResources[i]
			if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") || gv.WithResource(r.Name).GroupResource() == duplicates {
				continue
			}
			if err := s.list(ctx, client.RESTClient(), gv.WithResource(r.Name)); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// list lists one resource. A resource whose CustomResourceDefinition was deleted in the meantime has no objects.
func (s *Snapshot) list(ctx context.Context, client rest.Interface, gvr schema.GroupVersionResource) error {
	path := []string{"apis", gvr.Group, gvr.Version, gvr.Resource}
	if gvr.Group == "" {
		path = []string{"api", gvr.Version, gvr.Resource}
	}
	accept := "application/json"
	if gvr.GroupResource() == schemas {
		accept += ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	body, err := client.Get().AbsPath(path...).SetHeader("Accept", accept).DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Namespace       string `json:"namespace"`
				Name            string `json:"name"`
				UID             string `json:"uid"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	s.bodies[gvr.GroupResource()] = body
	for _, item := range list.Items {
		key := Key{GroupResource: gvr.GroupResource(), Namespace: item.Metadata.Namespace, Name: item.Metadata.Name}
		s.objects[key] = version{item.Metadata.UID, item.Metadata.ResourceVersion}
	}
	return nil
}

// Change is one object that has changed.
type Change struct {
	Key
	// How is one of the kinds of changes below.
	How string
}

// Kinds of changes.
const (
	made     = "made"
	changed  = "changed"
	replaced = "replaced"
	removed  = "removed"
)

func (c Change) String() string { return c.Key.String() + " was " + c.How }

// since returns the changes except noise, sorted.
func (s *Snapshot) since(before *Snapshot) []Change {
	var out []Change
	for key, now := range s.objects {
		then, ok := before.objects[key]
		switch {
		case noise[key.GroupResource]:
		case !ok:
			out = append(out, Change{key, made})
		case then.uid != now.uid:
			out = append(out, Change{key, replaced})
		case then != now:
			out = append(out, Change{key, changed})
		}
	}
	for key := range before.objects {
		if _, ok := s.objects[key]; !ok && !noise[key.GroupResource] {
			out = append(out, Change{key, removed})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// items decodes the objects of one resource.
func items[T any](s *Snapshot, resource schema.GroupResource) ([]T, error) {
	var list struct {
		metav1.ListMeta `json:"metadata"`
		Items           []T `json:"items"`
	}
	body, ok := s.bodies[resource]
	if !ok {
		return nil, fmt.Errorf("the cluster does not serve %s", resource)
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list of %s: %w", resource, err)
	}
	return list.Items, nil
}
