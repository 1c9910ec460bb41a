package installplan

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/lib/status"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/build"
	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// compared caches, for one CustomResourceDefinition, the needs that result from its change and the result of checking
// its objects.
type compared struct {
	// resourceVersion is the version of the live definition from which the field needs was computed.
	resourceVersion string
	needs           []preflight.Need
	inspection      inspection
	denial          denial
}

// inspection is the result of validating the objects of a CustomResourceDefinition against its new schema.
type inspection struct {
	// resourceVersion is the version of the live definition; account is the plan's account.
	resourceVersion string
	account         scoped.Account
	// list contains the rules that allow listing the objects.
	list    []rbacv1.PolicyRule
	results []*existing.Result
	// unchecked lists the reasons why objects could not be checked.
	unchecked []string
	// forbidden is not nil if reading the objects is not allowed. It is not cached, so that a grant takes effect
	// immediately.
	forbidden error
	// until is the time at which a cached refusal expires; wait is the minimum time for which it is cached.
	until time.Time
	wait  time.Duration
}

// A refusal is cached for minRecheck at first, and twice as long each time a check has the same result, up to
// maxRecheck. It is always cached for at least readShare times the duration of the check. A plan with few objects
// therefore resumes soon after a fix, and large numbers of objects are not read constantly.
const (
	minRecheck = time.Second
	maxRecheck = 2 * time.Minute
	readShare  = 20
)

func (i *inspection) refuses() bool {
	return i.forbidden != nil || slices.ContainsFunc(i.results, (*existing.Result).Refuses)
}

// schemaNeeds returns the permissions that the account needs for tryExisting. If the installation has a CRD account,
// that account reads the objects instead, and the API server reports which permissions it is missing.
func (s *run) schemaNeeds(ctx context.Context) ([]preflight.Need, error) {
	var needs []preflight.Need
	for _, st := range s.steps {
		if !st.IsCRD() || s.usesCRDAccount(st) {
			continue
		}
		more, err := s.schemaNeedsOf(ctx, st)
		if err != nil {
			return nil, err
		}
		needs = append(needs, more...)
	}
	return needs, nil
}

// schemaNeedsOf returns the needs for one CustomResourceDefinition. It compares the new definition with the live one,
// once for each version that the cache shows. There are no needs if the definition does not exist, does not belong to
// the lineage, or was written by this ClusterServiceVersion; if the cache is outdated, tryExisting detects the
// difference.
func (s *run) schemaNeedsOf(ctx context.Context, st step.Step) ([]preflight.Need, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: st.Object.GetName()}
	err := s.reconciler.Client.Get(ctx, key, live)
	known := s.reconciler.memory.Get(s.key()).schemas[key.Name]
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
	s.reconciler.memory.changeSchema(s.key(), key.Name, func(is *compared) { is.resourceVersion, is.needs = live.ResourceVersion, needs })
	return needs, nil
}

// tryExisting validates existing objects against the new schemas of the plan's CustomResourceDefinitions, which
// Kubernetes does not do. It reads the objects as the account that writes the definitions. Definitions that are already
// refused are skipped. Cached results are used only while the plan cannot proceed; before a write, the objects are
// always read.
func (s *run) tryExisting(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, existing.ReadTimeout, existing.ErrSlow)
	defer cancel()
	states := slices.DeleteFunc(slices.Clone(s.states), func(state execute.State) bool {
		return !state.Step.IsCRD() || state.Live == nil || !state.Step.Owner.Owns(state.Live) || s.isRefused(state)
	})
	unobstructed := s.findings.Clear()
	inspections, err := s.inspectAll(ctx, states, !unobstructed)
	if err != nil {
		return err
	}
	for i, state := range states {
		s.reportInspection(state, inspections[i])
	}
	if unobstructed {
		s.recheckAt = nextCheck(inspections)
	}
	return nil
}

// inspectAll returns one inspection for each state. stopped means that the plan cannot proceed, regardless of the results.
func (s *run) inspectAll(ctx context.Context, states []execute.State, stopped bool) ([]inspection, error) {
	now := s.reconciler.Clock.Now()
	inspections := make([]inspection, len(states))
	var fit []int // indexes of the states whose cached results do not refuse the change
	for i, state := range states {
		found, known := s.cachedInspection(state, now)
		if !known {
			var err error
			if found, err = s.inspect(ctx, state); err != nil {
				return nil, err
			}
		} else if !found.refuses() {
			fit = append(fit, i)
		}
		inspections[i] = found
		stopped = stopped || found.refuses()
	}
	for _, i := range fit {
		if stopped {
			break
		}
		var err error
		if inspections[i], err = s.inspect(ctx, states[i]); err != nil {
			return nil, err
		}
		stopped = inspections[i].refuses()
	}
	return inspections, nil
}

// nextCheck returns the time at which the objects should be read again. It is zero if there is no obstacle, or if
// reading some of the objects is not allowed.
func nextCheck(inspections []inspection) time.Time {
	var out time.Time
	for _, l := range inspections {
		switch {
		case l.forbidden != nil:
			return time.Time{}
		case l.refuses() && (out.IsZero() || l.until.Before(out)):
			out = l.until
		}
	}
	return out
}

// cachedInspection returns the cached result for the objects of a definition, and whether the result is still valid.
func (s *run) cachedInspection(state execute.State, now time.Time) (inspection, bool) {
	found := s.reconciler.memory.Get(s.key()).schemas[state.Live.GetName()].inspection
	return found, found.resourceVersion == state.Live.GetResourceVersion() && found.account == s.account && (!found.refuses() || now.Before(found.until))
}

func (s *run) isRefused(state execute.State) bool {
	object := apply.Describe(state.Step.Object)
	return slices.ContainsFunc(s.findings.Refused, func(f preflight.Refusal) bool { return f.Object == object })
}

// inspect validates the objects in each version whose new schema may be stricter. It caches the result, unless reading the
// objects is not allowed.
func (s *run) inspect(ctx context.Context, state execute.State) (inspection, error) {
	begun := s.reconciler.Clock.Now()
	live, err := crd.Decode(state.Live)
	if err != nil {
		return inspection{}, err
	}
	want, err := crd.Decode(state.Step.Object)
	if err != nil {
		return inspection{}, err
	}
	found := inspection{resourceVersion: live.ResourceVersion, account: s.account, list: preflight.List(live)}
	s.warnConverted(live.Name, crd.StricterButConverted(live, want))
	s.warnAltered(live.Name, crd.Alterations(live, want))
	for _, version := range crd.Stricter(live, want) {
		result, err := existing.Read(ctx, s.executor.Reader(state.Step), s.plan.Namespace, live, want, version)
		if apierrors.IsForbidden(err) {
			//nolint:errorlint // err is not wrapped: it is reported as a finding and must not count as a refused write
			found.forbidden = fmt.Errorf("existing objects must be validated against the new schema: %v", err)
			return found, nil
		}
		if err != nil {
			return inspection{}, fmt.Errorf("validate existing objects against the new schema of %s: %w", apply.Describe(state.Step.Object), err)
		}
		if result.Unchecked != "" {
			found.unchecked = append(found.unchecked, result.Unchecked)
		}
		found.results = append(found.results, result)
	}
	ended := s.reconciler.Clock.Now()
	s.reconciler.memory.changeSchema(s.key(), live.Name, func(is *compared) {
		found.wait = minRecheck
		if found.refuses() && reflect.DeepEqual(found.results, is.inspection.results) {
			found.wait = min(2*is.inspection.wait, maxRecheck)
		}
		found.until = ended.Add(max(found.wait, readShare*ended.Sub(begun)))
		is.inspection = found
	})
	return found, nil
}

// eventCRDValidation is the reason of events about objects that were not validated (OLM v0 contract).
const eventCRDValidation = "CRDValidation"

// warnConverted reports versions whose objects are not validated against their new schemas, because a webhook may convert
// them.
func (s *run) warnConverted(name string, versions []string) {
	if len(versions) > 0 {
		s.reconciler.Recorder.Eventf(s.plan, nil, corev1.EventTypeWarning, eventCRDValidation, "Validate", "%s",
			status.Note(fmt.Sprintf("the objects of CustomResourceDefinition %s in version %s were not validated against the new schema, because a webhook converts them", name, strings.Join(versions, ", "))))
	}
}

// warnAltered reports changes to existing objects that leave them valid.
func (s *run) warnAltered(name string, alterations []string) {
	if len(alterations) > 0 {
		s.reconciler.Recorder.Eventf(s.plan, nil, corev1.EventTypeWarning, eventCRDValidation, "Validate", "%s",
			status.Note(fmt.Sprintf("the new version of CustomResourceDefinition %s changes existing objects: it %s", name, listAlterations(alterations))))
	}
}

// reportInspection adds a result to the findings, limited to information that users who can read the plan may see.
func (s *run) reportInspection(state execute.State, found inspection) {
	for _, why := range found.unchecked { // objects that could not be checked do not block the plan
		s.findings.Unknown = append(s.findings.Unknown, preflight.Finding{
			Cause: "validate existing objects against the new schema of " + apply.Describe(state.Step.Object), Source: preflight.SourceDryRun, Why: why,
		})
	}
	tells := s.reportable(found.list)
	for _, result := range found.results {
		if err := result.Err(tells); err != nil {
			s.refuse(state.Step, err)
		}
	}
	if found.forbidden != nil {
		s.refuse(state.Step, found.forbidden)
	}
}

// reportable returns a function that reports whether the plan may mention the objects of a namespace: the OperatorGroup
// must select the namespace, and RBAC must allow the account to read the objects there, regardless of which account
// reads them now. Cluster-scoped objects may be mentioned if the group selects all namespaces.
func (s *run) reportable(list []rbacv1.PolicyRule) existing.MayName {
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
				rules := s.permissionsIn(namespace).Set()
				tell = rules.Covers(list) || rules.Covers(get)
			}
			known[namespace] = tell
		}
		return tell
	}
}
