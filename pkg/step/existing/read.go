package existing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/budget"
	"github.com/remit-olm/remit/pkg/step/crd"
)

// Limits for reading.
const (
	// PageSize is the number of objects in memory at a time. An object can be about 1.5 MiB in size, and the API server
	// limits a page only by its number of objects.
	PageSize = 20
	// MaxObjects is the number of objects that one Read validates; further objects are ignored.
	MaxObjects = 10_000
	// ReadTimeout limits all Reads for a plan together: a bundle determines how expensive its schemas are, and other
	// plans are waiting.
	ReadTimeout = 30 * time.Second
)

// ErrSlow is the cause of a canceled context that makes Read return early with the violations found so far.
var ErrSlow = fmt.Errorf("not completed within %s", ReadTimeout)

// Read validates the objects of a CustomResourceDefinition in a version that both definitions have, on behalf of a namespace, which
// waits while other namespaces do this. It reads the objects with the client's identity. A definition that is not established has no objects. If the context is canceled with the cause ErrSlow, Read returns the
// violations found so far without an error, unless it has not begun to validate.
func Read(ctx context.Context, r Reader, namespace string, live, want *apiextensionsv1.CustomResourceDefinition, version string) (*Result, error) {
	s := &reading{namespace: namespace, schemas: schemas{schemaOf(live, version), schemaOf(want, version)}, result: &Result{CRD: want.Name, Version: version}}
	defer s.end()
	gvk, isServed, err := crd.KindOf(r.RESTMapper(), live, version)
	if err != nil || !isServed {
		s.leaveUnserved(live)
		return s.result, err
	}
	return s.readAll(ctx, r, gvk)
}

// leaveUnserved records that the objects of an established definition were not checked: the mapper may know only an earlier definition of
// their kind.
func (s *reading) leaveUnserved(live *apiextensionsv1.CustomResourceDefinition) {
	if apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established) {
		s.result.leave("objects of version %s were not checked, because another definition has or had their kind", s.result.Version)
	}
}

// readAll reads and validates the objects.
func (s *reading) readAll(ctx context.Context, r Reader, gvk schema.GroupVersionKind) (*Result, error) {
	version := s.result.Version
	ended := func(doing string, err error) (*Result, error) {
		if errors.Is(context.Cause(ctx), ErrSlow) && !errors.Is(err, errBusy) {
			s.result.leave("not all objects of version %s were checked", version)
			return s.result, nil
		}
		return nil, fmt.Errorf("%s %s: %w", doing, gvk.GroupKind(), reason(ctx, err))
	}
	read, page := 0, ""
	for {
		list := &objectPage{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := r.List(ctx, list, client.Limit(s.pageSize()), client.Continue(page))
		if meta.IsNoMatchError(err) {
			return s.result, nil
		}
		if err != nil {
			return ended("list", err)
		}
		n, goesOn, err := s.validateAll(ctx, list)
		if err != nil {
			return ended("validate", err)
		}
		if !goesOn {
			return s.result, nil
		}
		read, page = read+n, list.GetContinue()
		if page == "" || read >= MaxObjects {
			if page != "" {
				s.result.leave("not all objects of version %s were checked", version)
			}
			return s.result, nil
		}
	}
}

// Reader reads objects from an API server, and knows which resources it requests.
type Reader interface {
	client.Reader
	RESTMapper() meta.RESTMapper
}

// reading is the state of one Read. The process is started for the first object.
type reading struct {
	namespace string
	schemas   schemas
	process   *process
	result    *Result
}

// pageSize is the number of objects to read. While others have the process, only one object is in memory.
func (s *reading) pageSize() int64 {
	if s.process == nil {
		return 1
	}
	return PageSize
}

// validateAll is validate for the n objects of a page.
func (s *reading) validateAll(ctx context.Context, list *objectPage) (n int, goesOn bool, err error) {
	texts, err := list.objects()
	goesOn = err == nil
	for i := 0; goesOn && i < len(texts); i++ {
		goesOn, err = s.validate(ctx, texts[i])
	}
	return len(texts), goesOn, err
}

// validate adds the violations of an object, given as JSON, to the result. goesOn is false if no further objects can be validated.
func (s *reading) validate(ctx context.Context, text json.RawMessage) (goesOn bool, err error) {
	var is metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &is); err != nil {
		return false, fmt.Errorf("decode an object: %w", err)
	}
	if budget.Refused(&is) != nil {
		s.result.leave("an object of version %s cannot be decoded", s.result.Version)
		return true, nil
	}
	if s.process == nil {
		var why string
		if s.process, why, err = start(ctx, s.namespace, s.schemas); err != nil {
			return false, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if why != "" {
			s.result.leave("schema of version %q of CustomResourceDefinition %s: %s", s.result.Version, s.result.CRD, why)
			return false, nil
		}
	}
	var found verdict
	isCostly := s.process.ask(text, &found) != nil
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if isCostly {
		s.result.leave("an object is too costly to validate")
		found = verdict{First: []string{tooCostly}}
	}
	s.result.add(client.ObjectKeyFromObject(&is), found)
	return !isCostly, nil
}

// objectPage is a list whose objects are not decoded: they can take a hundred times as much memory as their JSON.
type objectPage struct {
	unstructured.UnstructuredList

	texts []json.RawMessage
}

// objects returns the JSON of the objects. Readers other than clients of an API server fill in Items.
func (p *objectPage) objects() ([]json.RawMessage, error) {
	for i := range p.Items {
		text, err := p.Items[i].MarshalJSON()
		if err != nil {
			return nil, err
		}
		p.texts = append(p.texts, text)
	}
	return p.texts, nil
}

// UnmarshalJSON implements json.Unmarshaler, which clients use for kinds that implement runtime.Unstructured.
func (p *objectPage) UnmarshalJSON(text []byte) error {
	var list struct {
		Metadata metav1.ListMeta
		Items    []json.RawMessage
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	p.texts = list.Items
	p.SetContinue(list.Metadata.Continue)
	return nil
}

func (s *reading) end() {
	if s.process != nil {
		s.process.stop()
	}
}

// reason returns equal errors for repeated failures. An error that contains the URL of a page would be different each
// time, change the status that displays it, and thereby trigger another reconcile immediately.
func reason(ctx context.Context, err error) error {
	var request *url.Error
	switch {
	case errors.Is(err, errBusy):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &request):
		return request.Err
	}
	return err
}
