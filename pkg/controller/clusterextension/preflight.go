package clusterextension

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/pkg/extension/assess"
	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/rbac"
)

// checkPermissions reports all permissions that the identity is missing, before anything is written. It reads the cache, and
// asks the API server only about missing permissions that it has not asked about yet.
func checkPermissions(ctx context.Context, s *run) (outcome, error) {
	needs, err := s.needs(ctx)
	if err != nil {
		return outcome{}, err
	}
	s.findings = preflight.Examine(s.identity, needs, s.permissionsIn)
	if s.findings.TooMuch != nil {
		return waiting(message.Of(preflight.AsAccountError(s.identity, s.findings.TooMuch))), nil
	}
	s.findings.Notes = append(s.findings.Notes, assess.StopNotes(s.identity, s.ext, s.rendered, s.permissionsIn)...)
	s.findings = s.confirmer.Confirm(ctx, string(s.ext.UID), s.findings)
	s.wakeAfter(s.confirmer.Recheck(string(s.ext.UID)))
	if s.findings.Changes, err = s.changes(ctx); err != nil {
		return outcome{}, err
	}
	s.findings.Begun = s.begun()
	if err := s.findings.NoteLeftOut(s.steps); err != nil {
		return outcome{}, err
	}
	if err := assess.RefuseUnserved(&s.findings, s.steps, s.Provider, func(gvk schema.GroupVersionKind) (bool, error) { return s.lookups.Serves(ctx, gvk) }); err != nil {
		return outcome{}, err
	}
	s.checked = true
	switch {
	case s.findings.Clear() && len(s.findings.Doubts()) == 0 && s.unusable == nil:
		return proceed(), nil
	case s.findings.Final():
		s.publish(ctx)
		return blocked(s.aboutBundle(s.findings.Refusals().Err())), nil
	}
	s.publish(ctx)
	s.awaitsKinds = len(s.findings.Refused) > 0
	if s.findings.Blind || len(s.findings.Doubts()) > 0 {
		s.wakeAfter(s.memory.nextDelay(s.key())) // RBAC cannot be read, or the API server does not answer, so no watch reports a grant
	}
	return s.unauthorized(ctx)
}

// unauthorized returns the outcome for an identity that cannot be used or is missing permissions, in the wording of OLM
// v1. A version that is installed and needs no changes is not affected.
func (s *run) unauthorized(ctx context.Context) (outcome, error) {
	if out, err := skipIfSettled(ctx, s); out.stopped || err != nil {
		return out, err
	}
	return s.whyUnauthorized(), nil
}

func (s *run) whyUnauthorized() outcome {
	switch {
	case s.unusable != nil && s.unusable.Reason == scoped.AccountMissing:
		return waiting(message.Sprintf("operation cannot proceed due to the following validation error(s): %s", s.unusable.Text()))
	case !s.findings.Empty():
		var enrollment message.Text
		if s.unusable != nil && s.unusable.Reason == scoped.AccountNotEnrolled {
			enrollment = s.enrollment()
		}
		text := preauthorization(s.findings)
		return waiting(s.aboutBundle(message.Lines(text, pasteable(s.ext.Name, s.findings, enrollment, preflight.MaxSummary-len(text))).Err()))
	case s.unusable != nil:
		return waiting(s.unusable.Text())
	case len(s.findings.Refused) == 0 && len(s.findings.Doubts()) > 0:
		return waiting(s.aboutBundle(preflight.Undecided(s.findings)))
	}
	return waiting(s.aboutBundle(s.findings.Refusals().Err()))
}

// preauthorization describes missing permissions as OLM v1 does: tools look for its first line and for the rules.
func preauthorization(r preflight.Report) message.Text {
	out := []message.Text{"pre-authorization failed: service account requires the following permissions to manage cluster extension:"}
	var lines []message.Text
	for _, scope := range r.Scopes() {
		for _, rule := range scope.Rules {
			lines = append(lines, ruleLine(scope.Namespace, rule))
		}
	}
	slices.Sort(lines)
	size := len(out[0])
	for i, line := range lines {
		if size += len(line) + 1; size > preflight.MaxSummary {
			out = append(out, message.Sprintf("  and %d more; the report lists all", len(lines)-i))
			break
		}
		out = append(out, line)
	}
	for _, cause := range r.HiddenCauses() {
		out = append(out, message.Sprintf("  %s", cause))
	}
	if len(r.Unknown) > 0 {
		out = append(out, message.Sprintf("authorization evaluation error: missing rules may be incomplete: %s", r.Undecided()))
	}
	return message.Lines(append(out, r.RefusedText())...)
}

// ruleLine formats a rule as OLM v1 does, but quotes values that contain white space or control characters, because they are from a
// bundle.
func ruleLine(namespace string, rule rbacv1.PolicyRule) message.Text {
	text := fmt.Sprintf("Namespace:%q", namespace)
	for _, part := range []struct {
		name   string
		values []string
	}{{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs}, {"NonResourceURLs", rule.NonResourceURLs}} {
		if len(part.values) > 0 {
			text += fmt.Sprintf(" %s:[%s]", part.name, strings.Join(words(part.values), ","))
		}
	}
	return message.Sprintf("  %s", text)
}

// words returns the values in order.
func words(values []string) []string {
	out := slices.Sorted(slices.Values(values))
	for i, value := range out {
		if !message.IsPlain(value) || strings.ContainsFunc(value, unicode.IsSpace) {
			out[i] = rbac.Word(value)
		}
	}
	return out
}

// needs returns all permissions that the install needs.
func (s *run) needs(ctx context.Context) ([]preflight.Need, error) {
	needs, err := assess.Needs(s.rendered, s.steps, s.RBAC.RulesOf)
	if err != nil {
		return nil, err
	}
	if assess.IsStrict(s.ext) {
		more, err := s.schemaNeeds(ctx)
		if err != nil {
			return nil, err
		}
		needs = append(needs, more...)
	}
	removals, err := s.removals(ctx)
	if err != nil {
		return nil, err
	}
	needs = append(needs, removals...)
	identities := preflight.Identities{Account: s.identity, RBAC: s.RBAC, Proofs: s.Proofs, Home: s.identity.Account.Namespace, In: func(namespace string) ([]string, error) {
		s.noteAccount(types.NamespacedName{Namespace: namespace})
		return scoped.ServiceAccounts(ctx, s.Client, namespace)
	}}
	return identities.Resolve(needs)
}

// begun reports whether objects of this version have been written.
func (s *run) begun() bool {
	is := s.memory.Get(s.key()).pass
	return is != nil && is.hash == s.hash && len(is.marks) > 0
}
