package installplan

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// schemas remembers, for each plan, what it takes to change a CustomResourceDefinition as it is: the cache has no
// schemas, and a plan that comes back sends nothing for that.
type schemas struct {
	mu    sync.Mutex
	known map[types.NamespacedName]map[string]compared
}

// compared is for one resourceVersion of a CustomResourceDefinition.
type compared struct {
	resourceVersion string
	needs           []preflight.Need
}

func (c *schemas) get(plan types.NamespacedName, crd string) compared {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[plan][crd]
}

func (c *schemas) set(plan types.NamespacedName, crd string, is compared) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[types.NamespacedName]map[string]compared{}
	}
	if c.known[plan] == nil {
		c.known[plan] = map[string]compared{}
	}
	c.known[plan][crd] = is
}

func (c *schemas) forget(plan types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, plan)
}

// readings are what the account needs for tryExisting. The installation's CRD account, where there is one, reads
// in place of it, and is told by the API server what it lacks.
func (s *run) readings(ctx context.Context) ([]preflight.Need, error) {
	if s.reconciler.CRDAccount != (types.NamespacedName{}) {
		return nil, nil
	}
	var needs []preflight.Need
	for _, st := range s.steps {
		if !st.IsCRD() {
			continue
		}
		more, err := s.reading(ctx, st)
		if err != nil {
			return nil, err
		}
		needs = append(needs, more...)
	}
	return needs, nil
}

// reading asks the cache whether there is anything to compare, and once for each state of it the API server. There
// is nothing where this very version has written it; should that not be so, tryExisting finds out.
func (s *run) reading(ctx context.Context, st step.Step) ([]preflight.Need, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: st.Object.GetName()}
	err := s.reconciler.Client.Get(ctx, key, live)
	known := s.reconciler.schemas.get(s.key(), key.Name)
	switch {
	case err == nil && (!st.Owner.Owns(live) || live.Annotations[build.AlongsideKey(st.Owner)] != ""):
		return nil, nil
	case err == nil && known.resourceVersion == live.ResourceVersion:
		return known.needs, nil
	case err == nil:
		err = s.reconciler.Live.Get(ctx, key, live)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", apply.Describe(st.Object), err)
	}
	needs := preflight.Reading(st, live)
	s.reconciler.schemas.set(s.key(), key.Name, compared{live.ResourceVersion, needs})
	return needs, nil
}

// tryExisting holds the objects that exist against the schemas that the plan's CustomResourceDefinitions are to
// have, as who writes these; Kubernetes does not. What was refused already is not looked at.
func (s *run) tryExisting(ctx context.Context) error {
	for _, state := range s.states {
		if !state.Step.IsCRD() || state.Live == nil || !state.Step.Owner.Owns(state.Live) || s.isRefused(state) {
			continue
		}
		if err := s.tryObjects(ctx, state); err != nil {
			return err
		}
	}
	return nil
}

func (s *run) isRefused(state execute.State) bool {
	object := apply.Describe(state.Step.Object)
	return slices.ContainsFunc(s.findings.Refused, func(f preflight.Refusal) bool { return f.Object == object })
}

func (s *run) tryObjects(ctx context.Context, state execute.State) error {
	live, err := crd.Decode(state.Live)
	if err != nil {
		return err
	}
	want, err := crd.Decode(state.Step.Object)
	if err != nil {
		return err
	}
	for _, version := range crd.Stricter(live, want) {
		check, err := existing.New(live, want, version)
		if err != nil {
			s.unchecked(state, err.Error())
			continue
		}
		found, err := check.Read(ctx, s.executor.CRDs, live, s.tells(live))
		if apierrors.IsForbidden(err) {
			s.refuse(state.Step, fmt.Errorf("the objects that exist have to be held against its new schema: %v", err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("hold the objects that exist against the new schema of %s: %w", apply.Describe(state.Step.Object), err)
		}
		if found.Unread {
			s.unchecked(state, fmt.Sprintf("only the first %d objects were looked at", existing.MaxObjects))
		}
		if err := found.Err(); err != nil {
			s.refuse(state.Step, err)
		}
	}
	return nil
}

// unchecked reports what could not be looked at. It stops nothing.
func (s *run) unchecked(state execute.State, why string) {
	s.findings.Unknown = append(s.findings.Unknown, preflight.Finding{
		Cause: "hold the objects that exist against the new schema of " + apply.Describe(state.Step.Object), Source: preflight.SourceDryRun, Why: why,
	})
}

// tells says which objects the plan may tell of: those in namespaces that its OperatorGroup selects, where its
// account may read them by RBAC, whoever reads them now and whatever that one may see. Objects of the whole
// cluster are told of where the group selects all of it.
func (s *run) tells(d *apiextensionsv1.CustomResourceDefinition) existing.Tells {
	read := preflight.List(d)
	get := preflight.List(d)
	get[0].Verbs = []string{"get"}
	known := map[string]bool{}
	return func(namespace string) bool {
		tell, ok := known[namespace]
		if !ok {
			selected := slices.Contains(s.targets, rbac.ClusterScope) || slices.Contains(s.targets, namespace)
			if selected {
				held := s.holding(namespace).Set()
				tell = held.Covers(read) || held.Covers(get)
			}
			known[namespace] = tell
		}
		return tell
	}
}
