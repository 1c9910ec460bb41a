package clusterextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/extension/render"
	"github.com/remit-olm/remit/pkg/install/cert"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
	"github.com/remit-olm/remit/pkg/rbac"
	"github.com/remit-olm/remit/pkg/step/build"
)

// renderObjects turns the bundle into steps.
func renderObjects(ctx context.Context, s *run) (outcome, error) {
	s.owner = assess.Owner(s.ext, s.bundle.CSV.Name)
	s.owner.Proofs = s.Proofs
	rendered, err := s.render(ctx, nil)
	var config *render.ConfigError
	switch {
	case errors.As(err, &config):
		return stop(metav1.ConditionFalse, olmv1.ReasonInvalidConfiguration, s.aboutBundle(err)), nil
	case err != nil:
		return blocked(s.aboutBundle(err)), nil
	}
	if err := s.use(rendered); err != nil {
		return outcome{}, err
	}
	s.hash = s.hashOf()
	if known := s.memory.Get(s.key()).certificates; known != nil {
		return proceed(), s.renderWith(ctx, known)
	}
	return proceed(), nil
}

// renderWith renders the bundle again, with certificates that were issued.
func (s *run) renderWith(ctx context.Context, certificates map[string]cert.Set) error {
	rendered, err := s.render(ctx, func(deployment string) cert.Set { return certificates[deployment] })
	if err != nil {
		return err
	}
	return s.use(rendered)
}

// use sets what the run installs. With assess.AnnotationKeepCRDs, CustomResourceDefinitions have no owner reference, so that the
// garbage collector keeps them.
func (s *run) use(r *render.Rendered) error {
	s.rendered, s.steps, s.hashes = r, assess.Steps(r, s.owner), map[*unstructured.Unstructured]string{}
	if err := build.DropAggregated(s.steps, s.RBAC.Untracked().ClusterRoles); err != nil {
		return err
	}
	for _, st := range s.steps {
		if st.IsCRD() && assess.KeepsCRDs(s.ext) {
			st.Object.SetOwnerReferences(nil)
		}
		text, err := json.Marshal(st.Object.Object)
		if err != nil {
			return fmt.Errorf("encode %s: %w", apply.Describe(st.Object), err)
		}
		s.hashes[st.Object] = ownerutil.Hash(string(text))
		if st.Object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: rbacv1.ServiceAccountKind}) {
			s.noteAccount(client.ObjectKeyFromObject(st.Object))
		}
	}
	return nil
}

// render renders the bundle with the certificates of Deployments; nil means that there are none.
func (s *run) render(ctx context.Context, certificates func(deployment string) cert.Set) (*render.Rendered, error) {
	config, err := assess.Config(s.ext)
	if err != nil {
		return nil, err
	}
	return render.Render(render.Input{
		Bundle: s.bundle, Owner: s.owner, Config: config, Tool: s.Provider.Tool(s.owner.Namespace), Certificates: certificates, Spared: s.Spared,
		Scopes: s.lookups.Scopes(ctx), Holds: s.holds,
	})
}

// holds reports whether the identity has a permission cluster-wide.
func (s *run) holds(rule rbacv1.PolicyRule) bool {
	return s.covers(rbac.ClusterScope, []rbacv1.PolicyRule{rule})
}

// covers reports whether the rules that the identity has in a namespace cover the given rules. The permissions of the
// last namespaces are kept.
func (s *run) covers(namespace string, rules []rbacv1.PolicyRule) bool {
	if s.permissions == nil {
		s.permissions = rbac.NewRecent(s.permissionsIn)
	}
	return s.permissions.Get(namespace).Set().Covers(rules)
}

func (s *run) permissionsIn(namespace string) rbac.Permissions {
	return s.RBAC.LowerBound(rbac.SubjectOf(s.identity), namespace)
}

// hashOf identifies the rendered objects and the identity that writes them.
func (s *run) hashOf() string {
	parts := []string{s.identity.Username(), string(s.identity.Account.UID)}
	for _, st := range s.steps {
		parts = append(parts, s.hashes[st.Object])
	}
	return ownerutil.Commitment(parts...)
}
