package preflight

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/keyed"
	"github.com/remit-olm/remit/pkg/rbac"
)

// Limits of one Confirm.
const (
	// MaxReviews is the maximum number of SubjectAccessReviews of one Confirm. Without a review, the result from RBAC is
	// used.
	MaxReviews = 500
	// ReviewsAtOnce is the maximum number of concurrent SubjectAccessReviews of one Confirm.
	ReviewsAtOnce = 8
	// ReviewTimeout is the maximum duration of a SubjectAccessReview, because an authorizer may be a service that does
	// not respond.
	ReviewTimeout = 10 * time.Second
)

// Reviewer asks the API server whether the subject has the permission described by an atom, which is a rule with one
// verb, one resource and at most one name. namespace is "" for the whole cluster.
type Reviewer func(ctx context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error)

// Reviews returns a Reviewer that sends SubjectAccessReviews. The Reviewer returns an error if the API server could
// not decide.
func Reviews(c client.Client) Reviewer {
	return func(ctx context.Context, subject rbac.Subject, namespace string, atom rbacv1.PolicyRule) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, ReviewTimeout)
		defer cancel()
		review := &authorizationv1.SubjectAccessReview{Spec: specOf(subject, namespace, atom)}
		if err := c.Create(ctx, review); err != nil {
			return false, fmt.Errorf("request an access review: %w", err)
		}
		st := review.Status
		if !st.Allowed && !st.Denied && st.EvaluationError != "" {
			return false, errors.New(st.EvaluationError)
		}
		return st.Allowed, nil
	}
}

// specOf returns the spec of a SubjectAccessReview for the request that an atom allows.
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

// Confirmer asks the API server about permissions that RBAC does not grant, because another authorizer may allow them.
// It caches the answers to the last questions of each asker, so that no requests are sent if an asker repeats the same
// questions. It does not use cached answers if RBAC cannot be read, because the questions then remain the same even if
// permissions change.
type Confirmer struct {
	Ask Reviewer
	// Now defaults to time.Now.
	Now func() time.Time

	known keyed.Map[string, remembered]
}

type remembered struct {
	questions string
	answers   map[string]answer
	// recheck is when answers that allow something are asked again, or zero.
	recheck time.Time
}

// Settling is the time after which the API server is asked again about permissions that it allows although RBAC does not grant
// them: its own cache may not have shown the removal of a binding. The second answer is that of another authorizer.
const Settling = 10 * time.Second

type answer struct {
	allowed bool
	// err is the reason why the question could not be decided, or nil. Answers with an error are not cached.
	err error
}

// Confirm asks the API server about each request that is missing according to RBAC, about the alternatives of missing
// grants and, for Unknown findings, about the grants themselves. It moves permissions that the API server allows to
// Allowed, and permissions about which it cannot decide to Unknown. asker is the cache key: it identifies the plan or
// other caller that may repeat its questions.
func (c *Confirmer) Confirm(ctx context.Context, asker string, r Report) Report {
	subject := rbac.SubjectOf(r.Identity)
	questions, all, isComplete := questionsOf(r)
	if len(questions) == 0 {
		c.Forget(asker)
		return r
	}
	next := remembered{questions: all, answers: map[string]answer{}}
	isKnown := false
	if !r.Blind {
		isKnown = c.recall(asker, &next)
	}
	answers := next.answers
	c.ask(ctx, subject, questions, answers)
	next.answers = maps.Clone(answers)
	maps.DeleteFunc(next.answers, func(_ string, a answer) bool { return a.err != nil })
	if !isKnown && allowsAny(next.answers) {
		next.recheck = c.now().Add(Settling)
	}
	c.known.Set(asker, next)
	r = r.confirmed(answers)
	r.Unasked = !isComplete
	return r
}

// recall adds the cached answers to the same questions, except those that must be asked again. It returns false if there are none.
func (c *Confirmer) recall(asker string, next *remembered) bool {
	known := c.known.Get(asker)
	if known.questions != next.questions {
		return false
	}
	maps.Copy(next.answers, known.answers)
	next.recheck = known.recheck
	if !known.recheck.IsZero() && !c.now().Before(known.recheck) {
		maps.DeleteFunc(next.answers, func(_ string, a answer) bool { return a.allowed })
		next.recheck = time.Time{}
	}
	return true
}

func allowsAny(answers map[string]answer) bool {
	for _, a := range answers {
		if a.allowed {
			return true
		}
	}
	return false
}

func (c *Confirmer) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Recheck returns the time until Confirm should be called again for the askers that begin with prefix, because the API server
// allowed what RBAC does not grant; 0 if there is no need.
func (c *Confirmer) Recheck(prefix string) (after time.Duration) {
	c.known.Each(func(asker string, known remembered) {
		if strings.HasPrefix(asker, prefix) && !known.recheck.IsZero() {
			after = max(after, known.recheck.Sub(c.now()), time.Millisecond)
		}
	})
	return after
}

// Allows asks the API server whether a subject has all permissions that the rules describe. It returns false if the API server
// could not decide. The answers are not cached.
func (c *Confirmer) Allows(ctx context.Context, subject rbac.Subject, namespace string, rules []rbacv1.PolicyRule) bool {
	for _, atom := range rbac.Atoms(rules) {
		if allowed, err := c.Ask(ctx, subject, namespace, atom); err != nil || !allowed {
			return false
		}
	}
	return true
}

// Forget drops the cached answers of an asker that no longer exists.
func (c *Confirmer) Forget(asker string) { c.known.Delete(asker) }

// ForgetAll drops the cached answers of all askers that begin with prefix.
func (c *Confirmer) ForgetAll(prefix string) {
	c.known.DeleteFunc(func(asker string) bool { return strings.HasPrefix(asker, prefix) })
}

// ask sends the questions, except those that answers already contains, and adds the results to answers.
func (c *Confirmer) ask(ctx context.Context, subject rbac.Subject, questions []question, answers map[string]answer) {
	var group sync.WaitGroup
	var mu sync.Mutex
	free := make(chan struct{}, ReviewsAtOnce)
	for _, q := range questions {
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

// question asks whether the API server allows one atom in one scope. key is a hash of both: their names can be long, and answers are
// kept.
type question struct {
	namespace string
	atom      rbacv1.PolicyRule
	key       string
}

func questionsAbout(namespace string, rules []rbacv1.PolicyRule) iter.Seq[question] {
	return func(yield func(question) bool) {
		for _, atom := range rbac.Atoms(rules) {
			hash := sha256.Sum256([]byte(namespace + " " + rbac.Line(atom)))
			if !yield(question{namespace, atom, string(hash[:])}) {
				return
			}
		}
	}
}

// questionsOf lists the first MaxReviews questions without duplicates and in a fixed order: what only this check enforces first, then
// requests and alternatives, and then unknown grants. all is a hash of the identity and all questions; cached answers are valid only while it is unchanged.
// isComplete is false if there are more questions.
func questionsOf(r Report) (out []question, all string, isComplete bool) {
	isComplete = true
	b := sha256.New()
	_, _ = io.WriteString(b, r.Identity.String())
	seen := map[string]bool{}
	add := func(questions iter.Seq[question]) {
		for q := range questions {
			_, _ = io.WriteString(b, q.key)
			switch {
			case seen[q.key]:
			case len(out) == MaxReviews:
				isComplete = false
			default:
				seen[q.key] = true
				out = append(out, q)
			}
		}
	}
	found := slices.Concat(r.Findings, r.Unknown)
	slices.SortStableFunc(found, func(a, b Finding) int {
		switch {
		case a.Unenforced == b.Unenforced:
			return 0
		case a.Unenforced:
			return -1
		}
		return 1
	})
	for _, f := range found {
		add(questionsAbout(f.Namespace, f.Alternatives))
		if !f.Granted {
			add(questionsAbout(f.Namespace, f.Missing))
		}
	}
	for _, f := range r.Unknown {
		if f.Granted {
			add(questionsAbout(f.Namespace, f.Missing))
		}
	}
	return out, string(b.Sum(nil)), isComplete
}

// confirmed returns the report with its findings sorted into Findings, Allowed and Unknown according to the answers.
func (r Report) confirmed(answers map[string]answer) Report {
	// If every answer is "allowed", another authorizer decides, so the result from RBAC does not apply to questions
	// that were not asked.
	other := true
	for _, a := range answers {
		other = other && a.allowed
	}
	before := r
	r.Findings, r.Unknown = nil, nil
	for _, f := range slices.Concat(before.Findings, before.Unknown) {
		r.sort(f, answers, other)
	}
	return r
}

// sort adds the parts of one finding to Findings, Allowed and Unknown according to the answers. other is true if an
// authorizer other than RBAC decides.
func (r *Report) sort(f Finding, answers map[string]answer, other bool) {
	var undecided error
	for q := range questionsAbout(f.Namespace, f.Alternatives) {
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
	for q := range questionsAbout(f.Namespace, f.Missing) {
		a, asked := answers[q.key]
		if !a.allowed && a.err == nil {
			a.err = undecided
		}
		part := partOf(a, asked, f.Why == "" && !other)
		parts[part] = append(parts[part], q.atom)
		if part == partUnknown && why == "" {
			why = fmt.Sprintf("not checked, because the limit of %d SubjectAccessReviews was reached", MaxReviews)
			if a.err != nil {
				why = a.err.Error()
			}
		}
	}
	r.put(f, parts, why)
}

// partOf returns the part of a finding to which an atom belongs. rbac is true if the result from RBAC applies to atoms
// without an answer.
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

// sortWhole adds a whole grant to Findings or Unknown. Only its alternatives were reviewed: RBAC decides on the grant
// itself, or its rules are unknown because its role could not be read. undecided contains the errors of the reviews, if
// any.
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

// Parts of a finding: permissions that a review allows or denies, that are missing according to RBAC, or that are
// unknown.
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
