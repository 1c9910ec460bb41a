package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/types"
)

// Limits bound what the resolution of one namespace may take, whatever its catalogs ask for.
type Limits struct {
	// Cost is counted in steps, so that the same question ends in the same way on every machine. A step is a look at
	// one candidate, or what else takes about 50 nanoseconds.
	Cost int
	// Time ends a resolution whose steps take longer than expected.
	Time time.Duration
}

// Full are the limits of the resolution of a namespace.
func Full() Limits { return Limits{Cost: 40_000_000, Time: time.Minute} }

// Light are limits that all but hostile namespaces keep to, by far: resolving 10 Subscriptions in catalogs of 7,000
// bundles takes less than a quarter. Who exceeds them has to wait for its turn.
func Light() Limits { return Limits{Cost: 5_000_000, Time: 5 * time.Second} }

// Costs, in steps.
const (
	// costOfByte is that of decoding a byte of a catalog, in tenths.
	costOfByte = 2
	// costOfItem is that of a package, bundle or kind that becomes a part of an index.
	costOfItem = 20
	// costOfRequirement is that of reading one requirement.
	costOfRequirement = 20
	// costOfCandidate is that of a version that may meet a requirement: it becomes a part of a clause.
	costOfCandidate = 5
	// costOfEntry is that of asking whether an entry of a channel replaces a version, and skips it.
	costOfEntry = 20
	// costOfCompiling is that of compiling a CEL rule, with costOfRuleByte for each of its bytes.
	costOfCompiling = 1_000
	costOfRuleByte  = 20
	// costOfEvaluating is that of evaluating a CEL rule, with what CEL itself counts.
	costOfEvaluating = 20
	// checkEvery is how many steps may pass before a resolution notices that it was canceled.
	checkEvery = 10_000
	// checkCalls is how often something may be spent before it does, however little that was.
	checkCalls = 64
)

// LimitError says that a resolution was stopped: it took more than its Limits.
type LimitError struct {
	// Namespace that was resolved, and Limits that it exceeded.
	Namespace string
	Limits    Limits
	// Late says that it was the time that it exceeded.
	Late bool
	// Most are the packages that took the most steps, or of which the most versions were looked at, in words.
	Most []string
}

func (e *LimitError) Error() string {
	what := fmt.Sprintf("%d steps", e.Limits.Cost)
	if e.Late {
		what = e.Limits.Time.String()
	}
	text := fmt.Sprintf("resolution of namespace %s was stopped after %s, which is what a namespace may take", e.Namespace, what)
	if len(e.Most) > 0 {
		text += "; most of it is for " + join(e.Most)
	}
	return text
}

// meter counts the cost of one resolution. Its error stays: loops may look at it when it suits them, but nothing that
// was found after it counts.
type meter struct {
	ctx       context.Context
	programs  *programs
	namespace string
	// global is the namespace of the global catalogs.
	global string
	limits Limits
	spent  int
	next   int
	calls  int
	err    error
	// compiled are the CEL rules that were compiled last.
	compiled map[string]cel.Program
	// by is what each package has cost. of is that which is looked at, since so much was spent.
	by    map[*operator]int
	of    *operator
	since int
}

// source is the package that a version is of, or a catalog where it names no package; the zero value is none in particular.
type source struct {
	catalog types.NamespacedName
	pkg     string
}

func (s source) String() string {
	switch {
	case s.catalog.Name == "":
		return fmt.Sprintf("package %s, of which a version is installed", s.pkg)
	case s.pkg == "":
		return fmt.Sprintf("catalogsource %s as a whole", s.catalog)
	}
	return fmt.Sprintf("package %s of catalogsource %s", s.pkg, s.catalog)
}

// blame says for what is spent from now on: a version, or nil for none in particular.
func (m *meter) blame(o *operator) {
	if m.spent > m.since {
		m.by[m.of] += m.spent - m.since
	}
	m.of, m.since = o, m.spent
}

func newMeter(ctx context.Context, in Input, limits Limits) *meter {
	return &meter{ctx: ctx, programs: &in.Indexes.programs, namespace: in.Namespace, global: in.GlobalCatalogNamespace, limits: limits, by: map[*operator]int{}, compiled: map[string]cel.Program{}}
}

// finish is the last Spend: it notices that the resolution was canceled at its end.
func (m *meter) finish() error {
	m.next = 0
	return m.Spend(0)
}

// Spend implements sat.Budget.
func (m *meter) Spend(cost int) error {
	if m.err != nil {
		return m.err
	}
	m.spent += cost
	m.calls++
	switch {
	case m.spent > m.limits.Cost:
		m.err = &LimitError{Namespace: m.namespace, Limits: m.limits}
	case m.spent >= m.next || m.calls%checkCalls == 0:
		m.next = m.spent + checkEvery
		return m.look()
	}
	return m.err
}

// look notices at once that the resolution was canceled, or that its time is over: before what may take long at few steps.
func (m *meter) look() error {
	switch err := m.ctx.Err(); {
	case m.err != nil || err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		m.err = &LimitError{Namespace: m.namespace, Limits: m.limits, Late: true}
	default:
		m.err = fmt.Errorf("resolution of namespace %s: %w", m.namespace, err)
	}
	return m.err
}

// maxBlamed bounds the packages that a LimitError names.
const maxBlamed = 3

// most words which packages cost the most. Where the solver did, that is those with the most versions.
func (m *meter) most(p *problem) []string {
	m.blame(nil)
	by := map[source]int{}
	if inSolver := m.by[nil] > m.spent/2; !inSolver || p == nil {
		for o, spent := range m.by {
			if o != nil {
				by[o.source()] += spent
			}
		}
	} else {
		for _, o := range p.operators {
			by[o.source()]++
		}
	}
	delete(by, source{})
	sources := slices.SortedFunc(maps.Keys(by), func(a, b source) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), strings.Compare(a.String(), b.String()))
	})
	var out []string
	for _, s := range sources[:min(len(sources), maxBlamed)] {
		out = append(out, s.String())
	}
	return out
}

func (o *operator) source() source { return source{o.catalog, o.pkg} }
