package installplan

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// schemas remembers, for each plan, what it takes to change a CustomResourceDefinition as it is, and what was found
// of its objects: the cache has no schemas and no objects, and a plan that comes back sends nothing for either.
type schemas struct {
	mu    sync.Mutex
	known map[types.NamespacedName]map[string]compared
}

// compared is for one CustomResourceDefinition.
type compared struct {
	// resourceVersion is the one that needs are for.
	resourceVersion string
	needs           []preflight.Need
	look            look
}

// look is what was found of the objects of a CustomResourceDefinition.
type look struct {
	// resourceVersion is that of the CustomResourceDefinition, account the plan's.
	resourceVersion string
	account         scoped.Account
	// list are the rules by which the objects may be listed.
	list    []rbacv1.PolicyRule
	results []*existing.Result
	// unchecked are reasons for which objects could not be looked at.
	unchecked []string
	// forbidden says that they may not be read. It is not kept: that it has changed is noticed.
	forbidden error
	// until is when it is too old to refuse, wait the least time until then.
	until time.Time
	wait  time.Duration
}

// What is in the way stays for lookAgain at first, and where the same is found again for twice as long each time, at
// last for lastRetry; and for at least lookShare times as long as it took to find. Who mends an object of a few sees
// the plan go on, and many are not read all the time.
const (
	lookAgain = time.Second
	lookShare = 20
)

func (l *look) refuses() bool {
	return l.forbidden != nil || slices.ContainsFunc(l.results, (*existing.Result).Refuses)
}

func (c *schemas) get(plan types.NamespacedName, crd string) compared {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[plan][crd]
}

func (c *schemas) change(plan types.NamespacedName, crd string, change func(*compared)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[types.NamespacedName]map[string]compared{}
	}
	if c.known[plan] == nil {
		c.known[plan] = map[string]compared{}
	}
	is := c.known[plan][crd]
	change(&is)
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
	var needs []preflight.Need
	for _, st := range s.steps {
		if !st.IsCRD() || s.writtenForIt(st) {
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
	needs := preflight.SchemaNeeds(st, live)
	s.reconciler.schemas.change(s.key(), key.Name, func(is *compared) { is.resourceVersion, is.needs = live.ResourceVersion, needs })
	return needs, nil
}

// tryExisting holds the objects that exist against the schemas that the plan's CustomResourceDefinitions are to
// have, as who writes these; Kubernetes does not. What was refused already is not looked at. What was found earlier
// answers where the plan goes no further anyhow; before it writes, objects are always read.
func (s *run) tryExisting(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, existing.ReadTimeout, existing.ErrSlow)
	defer cancel()
	states := slices.DeleteFunc(slices.Clone(s.states), func(state execute.State) bool {
		return !state.Step.IsCRD() || state.Live == nil || !state.Step.Owner.Owns(state.Live) || s.isRefused(state)
	})
	only := s.findings.Clear()
	looks, err := s.looks(ctx, states, !only)
	if err != nil {
		return err
	}
	for i, state := range states {
		s.tell(state, looks[i])
	}
	if only {
		s.lookAt = next(looks)
	}
	return nil
}

// looks has one for each state; stopped says that the plan goes no further whatever they show.
func (s *run) looks(ctx context.Context, states []execute.State, stopped bool) ([]look, error) {
	now := s.reconciler.Clock.Now()
	looks := make([]look, len(states))
	var fit []int // as was found earlier
	for i, state := range states {
		found, known := s.kept(state, now)
		if !known {
			var err error
			if found, err = s.look(ctx, state); err != nil {
				return nil, err
			}
		} else if !found.refuses() {
			fit = append(fit, i)
		}
		looks[i] = found
		stopped = stopped || found.refuses()
	}
	for _, i := range fit {
		if stopped {
			break
		}
		var err error
		if looks[i], err = s.look(ctx, states[i]); err != nil {
			return nil, err
		}
		stopped = looks[i].refuses()
	}
	return looks, nil
}

// next is when to look again; zero where nothing is in the way, or where that is not for objects to show.
func next(looks []look) time.Time {
	var out time.Time
	for _, l := range looks {
		switch {
		case l.forbidden != nil:
			return time.Time{}
		case l.refuses() && (out.IsZero() || l.until.Before(out)):
			out = l.until
		}
	}
	return out
}

// kept is what was found earlier of the objects.
func (s *run) kept(state execute.State, now time.Time) (look, bool) {
	found := s.reconciler.schemas.get(s.key(), state.Live.GetName()).look
	return found, found.resourceVersion == state.Live.GetResourceVersion() && found.account == s.account && (!found.refuses() || now.Before(found.until))
}

func (s *run) isRefused(state execute.State) bool {
	object := apply.Describe(state.Step.Object)
	return slices.ContainsFunc(s.findings.Refused, func(f preflight.Refusal) bool { return f.Object == object })
}

// look reads the objects, and keeps what it finds.
func (s *run) look(ctx context.Context, state execute.State) (look, error) {
	begun := s.reconciler.Clock.Now()
	live, err := crd.Decode(state.Live)
	if err != nil {
		return look{}, err
	}
	want, err := crd.Decode(state.Step.Object)
	if err != nil {
		return look{}, err
	}
	found := look{resourceVersion: live.ResourceVersion, account: s.account, list: preflight.List(live)}
	for _, version := range crd.Stricter(live, want) {
		check, err := existing.New(live, want, version)
		if err != nil {
			found.unchecked = append(found.unchecked, err.Error())
			continue
		}
		result, err := check.Read(ctx, s.executor.Writer(state.Step), live)
		if apierrors.IsForbidden(err) {
			found.forbidden = fmt.Errorf("the objects that exist have to be held against its new schema: %v", err)
			return found, nil
		}
		if err != nil {
			return look{}, fmt.Errorf("validate existing objects against the new schema of %s: %w", apply.Describe(state.Step.Object), err)
		}
		if result.Unread {
			found.unchecked = append(found.unchecked, fmt.Sprintf("not all objects of version %s were looked at", version))
		}
		found.results = append(found.results, result)
	}
	ended := s.reconciler.Clock.Now()
	s.reconciler.schemas.change(s.key(), live.Name, func(is *compared) {
		found.wait = lookAgain
		if found.refuses() && reflect.DeepEqual(found.results, is.look.results) {
			found.wait = min(2*is.look.wait, lastRetry)
		}
		found.until = ended.Add(max(found.wait, lookShare*ended.Sub(begun)))
		is.look = found
	})
	return found, nil
}

// tell reports what was found, as far as the plan may tell of it by now.
func (s *run) tell(state execute.State, found look) {
	for _, why := range found.unchecked {
		s.unchecked(state, why)
	}
	tells := s.tells(found.list)
	for _, result := range found.results {
		if err := result.Err(tells); err != nil {
			s.refuse(state.Step, err)
		}
	}
	if found.forbidden != nil {
		s.refuse(state.Step, found.forbidden)
	}
}

// unchecked reports what could not be looked at. It stops nothing.
func (s *run) unchecked(state execute.State, why string) {
	s.findings.Unknown = append(s.findings.Unknown, preflight.Finding{
		Cause: "validate existing objects against the new schema of " + apply.Describe(state.Step.Object), Source: preflight.SourceDryRun, Why: why,
	})
}

// tells says which objects the plan may tell of: those in namespaces that its OperatorGroup selects, where its
// account may read them by RBAC, whoever reads them now and whatever that one may see. Objects of the whole
// cluster are told of where the group selects all of it.
func (s *run) tells(list []rbacv1.PolicyRule) existing.Tells {
	get := slices.Clone(list)
	for i := range get {
		get[i].Verbs = []string{"get"}
	}
	known := map[string]bool{}
	return func(namespace string) bool {
		tell, ok := known[namespace]
		if !ok {
			selected := slices.Contains(s.targets, rbac.ClusterScope) || slices.Contains(s.targets, namespace)
			if selected {
				held := s.holding(namespace).Set()
				tell = held.Covers(list) || held.Covers(get)
			}
			known[namespace] = tell
		}
		return tell
	}
}
