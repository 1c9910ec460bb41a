package preflight

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits of one Confirm.
const (
	// MaxReviews is how many SubjectAccessReviews it sends at most. Of what is not asked, what RBAC says
	// stands.
	MaxReviews = 500
	// ReviewsAtOnce is how many of them are under way together.
	ReviewsAtOnce = 8
	// ReviewTimeout bounds each: an authorizer may be a service that does not answer.
	ReviewTimeout = 10 * time.Second
)

// Reviewer asks the API server whether the subject may do what a rule of one verb, resource and name says,
// in a namespace or in the whole cluster.
type Reviewer func(ctx context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error)

// Reviews is a Reviewer by SubjectAccessReviews. The error says that the API server could not decide.
func Reviews(c client.Client) Reviewer {
	return func(ctx context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, ReviewTimeout)
		defer cancel()
		review := &authorizationv1.SubjectAccessReview{Spec: specOf(subject, namespace, atom)}
		if err := c.Create(ctx, review); err != nil {
			return false, fmt.Errorf("ask the API server: %w", err)
		}
		st := review.Status
		if !st.Allowed && !st.Denied && st.EvaluationError != "" {
			return false, errors.New(st.EvaluationError)
		}
		return st.Allowed, nil
	}
}

// specOf words an atom as the request that it would allow.
func specOf(subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: subject.User, Groups: subject.Groups}
	if len(atom.NonResourceURLs) > 0 {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: atom.NonResourceURLs[0], Verb: atom.Verbs[0]}
		return spec
	}
	resource, subresource, _ := strings.Cut(atom.Resources[0], "/")
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: atom.Verbs[0], Group: atom.APIGroups[0], Version: "*", Resource: resource, Subresource: subresource,
	}
	if len(atom.ResourceNames) > 0 {
		spec.ResourceAttributes.Name = atom.ResourceNames[0]
	}
	return spec
}

// Confirmer gets a second opinion on what RBAC does not give: another authorizer may allow it. It
// remembers the answers of each asker's last question, so that one who comes back with the same question
// costs no request; but not where RBAC cannot be read, since the question is then always the same.
type Confirmer struct {
	Ask Reviewer

	mu    sync.Mutex
	known map[string]remembered
}

type remembered struct {
	questions string
	answers   map[string]answer
}

type answer struct {
	allowed bool
	// err says that nobody could decide; it is never remembered.
	err error
}

// Confirm asks about each request that is missing by RBAC, and about what excuses a missing grant; for what
// is Unknown, about the grant itself too. What is allowed is moved to Allowed, what nobody can decide to
// Unknown. asker is the plan, or whatever else asks again.
func (c *Confirmer) Confirm(ctx context.Context, asker string, r Report) Report {
	subject := rbac.ServiceAccount(r.Account.Namespace, r.Account.Name)
	questions, all := questionsOf(r)
	if len(questions) == 0 {
		c.Forget(asker)
		return r
	}
	answers := map[string]answer{}
	if !r.Blind {
		answers = c.recall(asker, all)
	}
	c.ask(ctx, subject, questions, answers)
	c.remember(asker, all, answers)
	return r.confirmed(answers)
}

// Forget drops what is remembered of an asker that will not come back.
func (c *Confirmer) Forget(asker string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, asker)
}

// ForgetAll drops all whose names begin so.
func (c *Confirmer) ForgetAll(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for asker := range c.known {
		if strings.HasPrefix(asker, prefix) {
			delete(c.known, asker)
		}
	}
}

func (c *Confirmer) recall(asker, questions string) map[string]answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := map[string]answer{}
	if known := c.known[asker]; known.questions == questions {
		for key, a := range known.answers {
			answers[key] = a
		}
	}
	return answers
}

func (c *Confirmer) remember(asker, questions string, answers map[string]answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	decided := map[string]answer{}
	for key, a := range answers {
		if a.err == nil {
			decided[key] = a
		}
	}
	if c.known == nil {
		c.known = map[string]remembered{}
	}
	c.known[asker] = remembered{questions: questions, answers: decided}
}

// ask fills in the answers that are not known yet.
func (c *Confirmer) ask(ctx context.Context, subject rbac.Subject, questions []question, answers map[string]answer) {
	var group sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, ReviewsAtOnce)
	for _, q := range questions[:min(len(questions), MaxReviews)] {
		mu.Lock()
		_, known := answers[q.key]
		mu.Unlock()
		if known {
			continue
		}
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			allowed, err := c.Ask(ctx, subject, q.namespace, q.atom)
			mu.Lock()
			defer mu.Unlock()
			answers[q.key] = answer{allowed, err}
		})
	}
	group.Wait()
}

// question is about one atom in one scope.
type question struct {
	namespace string
	atom      rbacv1.PolicyRule
	key       string
}

func asks(namespace string, rules []rbacv1.PolicyRule) []question {
	atoms := rbac.Atoms(rules)
	out := make([]question, 0, len(atoms))
	for _, atom := range atoms {
		out = append(out, question{namespace, atom, namespace + " " + rbac.Line(atom)})
	}
	return out
}

// questionsOf lists what to ask, each question once and in a fixed order: requests and excuses first, and
// then grants that are unknown. all is a hash of the account and the keys together: it is remembered.
func questionsOf(r Report) (out []question, all string) {
	b := sha256.New()
	_, _ = io.WriteString(b, r.Account.String())
	seen := map[string]bool{}
	add := func(questions []question) {
		for _, q := range questions {
			if !seen[q.key] {
				seen[q.key] = true
				out = append(out, q)
				_, _ = io.WriteString(b, "\n"+q.key)
			}
		}
	}
	for _, list := range [][]Finding{r.Findings, r.Unknown} {
		for _, f := range list {
			add(asks(f.Namespace, f.Unless))
			if !f.Granted {
				add(asks(f.Namespace, f.Missing))
			}
		}
	}
	for _, f := range r.Unknown {
		if f.Granted {
			add(asks(f.Namespace, f.Missing))
		}
	}
	return out, string(b.Sum(nil))
}

// confirmed sorts the findings by the answers.
func (r Report) confirmed(answers map[string]answer) Report {
	// Where everything that was asked is allowed, RBAC is not what decides here, and says nothing of the rest.
	other := true
	for _, a := range answers {
		other = other && a.allowed
	}
	before := r
	r.Findings, r.Unknown = nil, nil
	for _, f := range before.Findings {
		r.sort(f, answers, other)
	}
	for _, f := range before.Unknown {
		r.sort(f, answers, other)
	}
	return r
}

// sort puts the parts of one finding where its answers say.
func (r *Report) sort(f Finding, answers map[string]answer, other bool) {
	var undecided error
	for _, q := range asks(f.Namespace, f.Unless) {
		a := answers[q.key]
		if a.allowed {
			f.Missing, f.Source, f.Why = []rbacv1.PolicyRule{q.atom}, SourceReview, ""
			r.Allowed = append(r.Allowed, f)
			return
		}
		undecided = errors.Join(undecided, a.err)
	}
	if f.Granted && f.Why == "" || len(f.Missing) == 0 {
		r.sortWhole(f, undecided)
		return
	}
	parts := map[string][]rbacv1.PolicyRule{}
	why := f.Why
	for _, q := range asks(f.Namespace, f.Missing) {
		a, asked := answers[q.key]
		if !a.allowed && a.err == nil {
			a.err = undecided
		}
		part := partOf(a, asked, f.Why == "" && !other)
		parts[part] = append(parts[part], q.atom)
		if part == partUnknown && why == "" {
			why = fmt.Sprintf("only %d questions are asked", MaxReviews)
			if a.err != nil {
				why = a.err.Error()
			}
		}
	}
	r.put(f, parts, why)
}

// partOf says where an atom goes. rbac says that what RBAC does not give is not there, unless another
// answer was given.
func partOf(a answer, asked, rbac bool) string {
	switch {
	case a.err != nil, !asked && !rbac:
		return partUnknown
	case !asked:
		return partMissing
	case a.allowed:
		return partAllowed
	}
	return partDenied
}

// sortWhole is for a grant of which reviews say nothing, only of what excuses it: RBAC decides it, or it
// is of a role that could not be read.
func (r *Report) sortWhole(f Finding, undecided error) {
	if undecided != nil {
		f.Why = undecided.Error()
	}
	if f.Why != "" {
		r.Unknown = append(r.Unknown, f)
		return
	}
	r.Findings = append(r.Findings, f)
}

// Parts of a finding: what was allowed, denied and not decided by review, and what is missing by RBAC.
const (
	partAllowed = "allowed"
	partDenied  = "denied"
	partMissing = "missing"
	partUnknown = "unknown"
)

func (r *Report) put(f Finding, parts map[string][]rbacv1.PolicyRule, why string) {
	part := func(name string, source Source, why string, into *[]Finding) {
		if len(parts[name]) > 0 {
			f.Missing, f.Source, f.Why = rbac.Compact(parts[name]), source, why
			*into = append(*into, f)
		}
	}
	part(partMissing, SourceRBAC, "", &r.Findings)
	part(partDenied, SourceReview, "", &r.Findings)
	part(partAllowed, SourceReview, "", &r.Allowed)
	part(partUnknown, SourceReview, why, &r.Unknown)
}
