package recorded

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Client returns a client whose requests are recorded as "<user>: <verb> <kind> <namespace>/<name>". The verb of a
// deletion without a UID precondition is "delete any", and that of a dry run is "try". A forced write ends with "by
// force", and a failed write with "(refused)".
func (s *Server) Client(user string) client.Client {
	u := &asUser{Server: s, user: user}
	funcs := u.writeFuncs()
	funcs.Get, funcs.List = u.get, u.list
	return interceptor.NewClient(s.store, funcs)
}

// Cached returns a client for a program that reads from a cache. Its reads are not recorded.
func (s *Server) Cached(user string) client.Client {
	u := &asUser{Server: s, user: user}
	funcs := u.writeFuncs()
	funcs.Get, funcs.List = u.cachedGet, u.cachedList
	return interceptor.NewClient(s.store, funcs)
}

// writeFuncs returns the functions that record and execute writes.
func (u *asUser) writeFuncs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: u.create, Apply: u.apply, SubResourcePatch: u.patchStatus,
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			o := (&client.UpdateOptions{}).ApplyOptions(opts)
			return u.write("update", obj, o.DryRun, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			o := (&client.PatchOptions{}).ApplyOptions(opts)
			return u.write("patch"+forced(o.Force), obj, o.DryRun, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			o := (&client.DeleteOptions{}).ApplyOptions(opts)
			verb := "delete"
			if o.Preconditions == nil || o.Preconditions.UID == nil {
				verb += " any"
			}
			return u.write(verb, obj, o.DryRun, func() error { return c.Delete(ctx, obj, opts...) })
		},
	}
}

// get records a read of an object.
func (u *asUser) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := u.ask("get " + u.kind(obj) + " " + name(key)); err != nil {
		return err
	}
	return c.Get(ctx, key, obj, opts...)
}

// list records a read of a list.
func (u *asUser) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if err := u.ask("list " + u.kind(list)); err != nil {
		return err
	}
	if metadata, ok := list.(*metav1.PartialObjectMetadataList); ok && !u.scheme.Recognizes(metadata.GroupVersionKind()) {
		return listMetadata(ctx, c, metadata, opts...)
	}
	return c.List(ctx, list, opts...)
}

// listMetadata lists the metadata of custom resources, which the fake client supports only for registered kinds.
func listMetadata(ctx context.Context, c client.Reader, into *metav1.PartialObjectMetadataList, opts ...client.ListOption) error {
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(into.GroupVersionKind())
	if err := c.List(ctx, all, opts...); err != nil {
		return err
	}
	for i := range all.Items {
		into.Items = append(into.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: all.Items[i].GetNamespace(), Name: all.Items[i].GetName(), UID: all.Items[i].GetUID(),
		}})
	}
	return nil
}

func forced(force *bool) string {
	if ptr.Deref(force, false) {
		return " by force"
	}
	return ""
}

// asUser executes and records the requests from one user.
type asUser struct {
	*Server
	user string
}

// request calls the function that was set for the request with Server.Before, if any, and returns the error that was
// set with Server.Refuse, or nil. The caller records the request.
func (u *asUser) request(request string) error {
	u.mu.Lock()
	do := u.before[request]
	delete(u.before, request)
	err := u.refusals[request]
	u.mu.Unlock()
	if do != nil {
		do()
	}
	return err
}

// ask records a request that does not write anything.
func (u *asUser) ask(what string) error {
	text := Mask(u.user + ": " + what)
	u.mu.Lock()
	u.requests = append(u.requests, text)
	u.mu.Unlock()
	return u.request(text)
}

// write records and executes a write. It records a dry run with the verb "try", as a request that does not write.
func (u *asUser) write(verb string, obj client.Object, dryRun []string, do func() error) error {
	what := u.kind(obj) + " " + name(client.ObjectKeyFromObject(obj))
	if slices.Contains(dryRun, metav1.DryRunAll) {
		if err := u.ask("try " + what); err != nil {
			return err
		}
		return do()
	}
	text := Mask(u.user + ": " + verb + " " + what)
	err := u.request(text)
	if err == nil {
		err = do()
	}
	if err != nil {
		text += " (refused)"
	}
	u.log(text)
	u.index(obj)
	return err
}

func (s *Server) log(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, Mask(text))
}

// cachedGet reads an object from the store. For an object that was passed to Lag, it returns the state at that time.
func (u *asUser) cachedGet(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if old := u.lagging[u.kind(obj)+" "+name(key)]; old != nil {
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(old.DeepCopyObject()).Elem())
		return nil
	}
	return c.Get(ctx, key, obj, opts...)
}

func (u *asUser) cachedList(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.List(ctx, list, opts...); err != nil || len(u.lagging) == 0 {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for i := range items {
		obj, ok := items[i].(client.Object)
		if old := u.lagging[u.kind(items[i])+" "+name(client.ObjectKeyFromObject(obj))]; ok && old != nil {
			items[i] = old.DeepCopyObject()
		}
	}
	return meta.SetList(list, items)
}

// create answers SubjectAccessReviews.
func (u *asUser) create(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
	review, ok := obj.(*authorizationv1.SubjectAccessReview)
	if !ok {
		o := (&client.CreateOptions{}).ApplyOptions(opts)
		return u.write("create", obj, o.DryRun, func() error {
			u.initialize(obj)
			return c.Create(ctx, obj, opts...)
		})
	}
	what := "review"
	if a := review.Spec.ResourceAttributes; a != nil {
		review.Status.Allowed = u.allowed["*"] || u.allowed[a.Verb+" "+a.Resource]
		what += " " + a.Verb + " " + a.Resource
	}
	return u.ask(what)
}

func (u *asUser) patchStatus(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return u.write("patch "+sub+" of", obj, nil, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
}

// apply merges the fields into the stored object. Lists are replaced.
func (u *asUser) apply(ctx context.Context, c client.WithWatch, config runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	o := (&client.ApplyOptions{}).ApplyOptions(opts)
	raw, err := json.Marshal(config)
	if err != nil {
		return err
	}
	want := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, want); err != nil {
		return err
	}
	isDryRun := slices.Contains(o.DryRun, metav1.DryRunAll)
	return u.write("apply"+forced(o.Force), want, o.DryRun, func() error {
		if want, err = u.merge(ctx, c, want, isDryRun); err != nil {
			return err
		}
		if raw, err = json.Marshal(want); err != nil {
			return err
		}
		return json.Unmarshal(raw, config)
	})
}

func (u *asUser) merge(ctx context.Context, c client.WithWatch, want *unstructured.Unstructured, isDryRun bool) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case apierrors.IsNotFound(err) && isDryRun:
		return want, nil
	case apierrors.IsNotFound(err):
		want.SetResourceVersion("") // the API server ignores it
		u.initialize(want)
		return want, c.Create(ctx, want)
	case err != nil:
		return nil, err
	}
	if v := want.GetResourceVersion(); v != "" && v != live.GetResourceVersion() {
		return nil, apierrors.NewConflict(resource(want), want.GetName(), fmt.Errorf("the object has version %s", live.GetResourceVersion()))
	}
	merged := live.DeepCopy()
	overlay(merged.Object, want.Object)
	if isDryRun || equality.Semantic.DeepEqual(merged.Object, live.Object) {
		return merged, nil
	}
	if !equality.Semantic.DeepEqual(merged.Object["spec"], live.Object["spec"]) {
		merged.SetGeneration(live.GetGeneration() + 1)
	}
	return merged, c.Update(ctx, merged)
}

func overlay(into, from map[string]any) {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		has, hasMap := into[key].(map[string]any)
		if isMap && hasMap {
			overlay(has, below)
			continue
		}
		into[key] = value
	}
}

// Recorder returns an event recorder that records events among the writes.
func (s *Server) Recorder() events.EventRecorder { return recorder{s} }

type recorder struct{ *Server }

// Eventf implements events.EventRecorder.
func (r recorder) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	obj, ok := regarding.(client.Object)
	if !ok {
		return
	}
	r.log(fmt.Sprintf("event: %s %s on %s %s: %s", kind, reason, r.kind(obj), name(client.ObjectKeyFromObject(obj)), fmt.Sprintf(note, args...)))
}
