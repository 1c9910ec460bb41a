package clusterextension

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/crd"
	"github.com/remit-olm/remit/pkg/step/execute"
	"github.com/remit-olm/remit/pkg/step/existing"
)

// comparison records the permissions that a change to one CustomResourceDefinition requires.
type comparison struct {
	// hash identifies the install, and resourceVersion the live definition.
	hash, resourceVersion string
	needs                 []preflight.Need
}

// schemaNeeds returns the permissions that validating existing objects requires. A live definition is read once for each
// of its resource versions, because the cache contains no schemas.
func (s *run) schemaNeeds(ctx context.Context) ([]preflight.Need, error) {
	var needs []preflight.Need
	for _, st := range s.steps {
		if !st.IsCRD() {
			continue
		}
		is, err := s.compare(ctx, st)
		if err != nil {
			return nil, err
		}
		needs = append(needs, is.needs...)
	}
	return needs, nil
}

func (s *run) compare(ctx context.Context, st step.Step) (comparison, error) {
	live := &apiextensionsv1.CustomResourceDefinition{}
	key := client.ObjectKey{Name: st.Object.GetName()}
	exists, err := apply.Read(ctx, s.Client, key, live)
	if err != nil || !exists || !s.owner.Owns(live) {
		return comparison{}, err
	}
	known := s.memory.Get(s.key()).comparisons[key.Name]
	if known.hash == s.hash && known.resourceVersion == live.ResourceVersion {
		return known, nil
	}
	if p := s.memory.Get(s.key()).pass; p != nil && p.hash == s.hash && p.marks[apply.Describe(st.Object)] != nil {
		return comparison{}, nil // this install has already written the definition
	}
	if exists, err = apply.Read(ctx, s.Live, key, live); err != nil || !exists {
		return comparison{}, err
	}
	is := comparison{s.hash, live.ResourceVersion, preflight.SchemaNeeds(st, live)}
	s.memory.Change(s.key(), func(m *remembered) {
		if m.comparisons == nil {
			m.comparisons = map[string]comparison{}
		}
		m.comparisons[key.Name] = is
	})
	return is, nil
}

// tryExisting validates existing objects against the new schemas of CustomResourceDefinitions, as the identity. Kubernetes
// does not do this.
func (s *run) tryExisting(ctx context.Context, states []execute.State) error {
	if !assess.IsStrict(s.ext) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, existing.ReadTimeout, existing.ErrSlow)
	defer cancel()
	for _, state := range states {
		if !state.Step.IsCRD() || state.Problem != nil || state.Live == nil || !s.owner.Owns(state.Live) {
			continue
		}
		if err := s.inspect(ctx, state); err != nil {
			return err
		}
	}
	return nil
}

// inspect adds the objects that the new schema of one CustomResourceDefinition would reject to the findings.
func (s *run) inspect(ctx context.Context, state execute.State) error {
	live, err := crd.Decode(state.Live)
	if err != nil {
		return err
	}
	want, err := crd.Decode(state.Step.Object)
	if err != nil {
		return err
	}
	for _, version := range crd.Stricter(live, want) {
		result, err := existing.Read(ctx, s.executor.Account, s.ext.Spec.Namespace, live, want, version)
		switch {
		case apierrors.IsForbidden(err):
			s.refuse(state.Step, fmt.Errorf("existing objects must be validated against the new schema: %v", err)) //nolint:errorlint // err is not wrapped, because it must not count as a refused write
			continue
		case err != nil:
			return fmt.Errorf("validate existing objects against the new schema of %s: %w", apply.Describe(state.Step.Object), err)
		case result.Unchecked != "":
			s.unchecked(state.Step, result.Unchecked)
		}
		if err := result.Err(func(string) bool { return true }); err != nil { // the identity was allowed to list all of them
			s.refuse(state.Step, err)
		}
	}
	return nil
}

// unchecked records that objects could not be validated, which does not block the install.
func (s *run) unchecked(st step.Step, why string) {
	s.findings.Unknown = append(s.findings.Unknown, preflight.Finding{
		Cause: "validate existing objects against the new schema of " + apply.Describe(st.Object), Source: preflight.SourceDryRun, Why: why,
	})
}

func (s *run) refuse(st step.Step, why error) { s.findings.Refuse(apply.Describe(st.Object), why) }
