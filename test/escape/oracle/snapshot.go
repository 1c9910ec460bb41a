package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// noise lists resources whose changes are ignored, because the control plane writes them at any time or in response to
// objects in any namespace.
var noise = map[schema.GroupResource]bool{
	{Resource: "events"}: true,
	{Group: "coordination.k8s.io", Resource: "leases"}: true, // heartbeats and leader election
	{Resource: "nodes"}: true, // heartbeats
	{Group: "networking.k8s.io", Resource: "ipaddresses"}: true, // one for each Service
	{Resource: "componentstatuses"}:                       true, // no objects
}

// duplicates is the resource under which the API server also serves the core group's events. It is not listed,
// because there are thousands of events late in a run.
var duplicates = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}

// schemas is the resource whose objects the oracle compares only by metadata, because they are large and do not contain text
// from Remit.
var schemas = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// Key identifies an object. The namespace is "" for a cluster-scoped object.
type Key struct {
	schema.GroupResource
	Namespace, Name string
}

func (k Key) String() string {
	return strings.TrimPrefix(k.GroupResource.String()+" "+k.Namespace+"/"+k.Name, " ")
}

// version identifies one state of an object.
type version struct{ uid, resourceVersion string }

// Snapshot is the state of a whole cluster at a point in time.
type Snapshot struct {
	objects map[Key]version
	// bodies contains the lists as the API server sent them.
	bodies map[schema.GroupResource][]byte
	// resources contains the version in which each resource was listed.
	resources map[schema.GroupResource]schema.GroupVersionResource
}

// lists is the number of resources that a snapshot lists concurrently. For each list, the API server waits for etcd.
const lists = 8

// take returns a snapshot of all resources that can be listed.
func take(ctx context.Context, client *discovery.DiscoveryClient) (*Snapshot, error) {
	s := newSnapshot()
	return s, s.complete(ctx, client)
}

// complete lists the resources that the snapshot does not contain yet.
func (s *Snapshot) complete(ctx context.Context, client *discovery.DiscoveryClient) error {
	resources, err := listable(client)
	if err != nil {
		return err
	}
	var lock sync.Mutex
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(lists)
	for _, gvr := range resources {
		if _, ok := s.resources[gvr.GroupResource()]; ok {
			continue
		}
		s.resources[gvr.GroupResource()] = gvr
		reads.Go(func() error {
			body, objects, err := list(ctx, client.RESTClient(), gvr)
			if err != nil || body == nil {
				return err
			}
			lock.Lock()
			defer lock.Unlock()
			s.bodies[gvr.GroupResource()] = body
			maps.Copy(s.objects, objects)
			return nil
		})
	}
	return reads.Wait()
}

func newSnapshot() *Snapshot {
	return &Snapshot{objects: map[Key]version{}, bodies: map[schema.GroupResource][]byte{},
		resources: map[schema.GroupResource]schema.GroupVersionResource{}}
}

// listable returns the resources that can be listed, each in one version.
func listable(client *discovery.DiscoveryClient) ([]schema.GroupVersionResource, error) {
	groups, err := client.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("discover resources: %w", err)
	}
	var out []schema.GroupVersionResource
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for i := range group.APIResources {
			r := &group.APIResources[i]
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") && gv.WithResource(r.Name).GroupResource() != duplicates {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

// list returns the objects of one resource: the response and the version of each object. It returns nothing if the
// resource's CustomResourceDefinition was deleted in the meantime.
func list(ctx context.Context, client rest.Interface, gvr schema.GroupVersionResource) ([]byte, map[Key]version, error) {
	accept := "application/json"
	if gvr.GroupResource() == schemas {
		accept += ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	}
	body, err := client.Get().AbsPath(pathOf(gvr)...).SetHeader("Accept", accept).DoRaw(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
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
		return nil, nil, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
	}
	out := map[Key]version{}
	for _, item := range list.Items {
		key := Key{GroupResource: gvr.GroupResource(), Namespace: item.Metadata.Namespace, Name: item.Metadata.Name}
		out[key] = version{item.Metadata.UID, item.Metadata.ResourceVersion}
	}
	return body, out, nil
}

// pathOf returns the path of a resource in the API. The scope is empty, or "namespaces" and the name of one.
func pathOf(gvr schema.GroupVersionResource, scope ...string) []string {
	path := []string{"apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		path = []string{"api", gvr.Version}
	}
	return append(append(path, scope...), gvr.Resource)
}

// Change describes how one object differs between two snapshots.
type Change struct {
	Key
	// How is created, changed, replaced or removed.
	How string
}

// Kinds of changes.
const (
	created  = "created"
	changed  = "changed"
	replaced = "replaced"
	removed  = "removed"
)

func (c Change) String() string { return c.Key.String() + " was " + c.How }

// since returns the changes since an earlier snapshot, sorted and without noise.
func (s *Snapshot) since(before *Snapshot) []Change {
	var out []Change
	for key, now := range s.objects {
		then, ok := before.objects[key]
		switch {
		case noise[key.GroupResource]:
		case !ok:
			out = append(out, Change{key, created})
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
