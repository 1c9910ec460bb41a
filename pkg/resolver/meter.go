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
	"k8s.io/utils/clock"
)

// Limits bounds the cost of resolving one namespace, regardless of what its catalogs contain.
type Limits struct {
	// Cost is a number of steps rather than a duration, so that a resolution has the same result on every machine. A
	// step is the examination of one candidate, or other work of about 50 nanoseconds.
	Cost int
	// Memory bounds the estimated memory, in bytes, that exists for one resolution: the requirements of the versions that it considers,
	// which can take thirty times as much as their text when they are parsed, their candidates, and the versions of the channels that it
	// reads in catalogs of tenants. 0 means no limit.
	Memory int64
	// Time bounds the duration of a resolution, in case its steps take longer than expected.
	Time time.Duration
	// Idle is the fraction of the time, from 0 to less than 1, in which the resolution waits so that other work gets the CPU.
	Idle float64
}

// Full returns the limits for resolving a namespace.
func Full() Limits { return Limits{Cost: 40_000_000, Memory: 96 << 20, Time: time.Minute} }

// Light returns limits that only hostile namespaces exceed: resolving 10 Subscriptions in catalogs of 7,000 bundles
// costs less than a quarter of the limit. Namespaces that exceed these limits are queued for a resolution with the Full
// limits.
func Light() Limits { return Limits{Cost: 5_000_000, Memory: 32 << 20, Time: 5 * time.Second} }

// Costs, in steps.
const (
	// costOfByte is the cost of decoding one byte of a catalog, in tenths of a step.
	costOfByte = 2
	// costOfItem is the cost of adding a package, bundle or kind to an index.
	costOfItem = 20
	// costOfRequirement is the cost of reading one requirement.
	costOfRequirement = 20
	// costOfCandidate is the cost of adding one candidate for a requirement to the constraints.
	costOfCandidate = 5
	// costOfEntry is the cost of checking whether a channel entry replaces or skips a version.
	costOfEntry = 20
	// costOfCompiling is the cost of compiling a CEL rule, in addition to costOfRuleByte for each byte.
	costOfCompiling = 1_000
	costOfRuleByte  = 500
	// costOfEvaluating is the cost of evaluating a CEL rule, in addition to CEL's own cost.
	costOfEvaluating = 20
	// costOfOwner is the cost of finding whether other packages own a kind.
	costOfOwner = 2
	// checkEvery is the number of steps after which a resolution checks for cancellation.
	checkEvery = 10_000
	// checkCalls is the number of calls to Spend after which a resolution checks for cancellation, even if the costs
	// are small.
	checkCalls = 64
)

// Memory, in bytes, of the parts of a resolution. What the solver allocates for them is included; TestMemoryOfProblemsIsWhatTheyTake
// measures it.
const (
	// memoryOfOperator is the memory of a version in a channel, also as the result of the search that is being made.
	memoryOfOperator = 56
	// memoryOfCandidate is the memory of a candidate for a requirement or a Subscription, and memoryOfNeed that of a requirement of a
	// version, in addition to its candidates.
	memoryOfCandidate, memoryOfNeed = 80, 750
	// memoryOfVersion is the memory of a version or Subscription that the solver considers.
	memoryOfVersion = 1_400
	// memoryOfKind is the memory of a kind while it is found who owns it, and memoryOfOwner that of a version in the rule that a kind or
	// package has one owner. memoryOfPair is the memory of such a rule for two versions.
	memoryOfKind, memoryOfOwner, memoryOfPair = 200, 450, 800
	// memoryOfSearch is the memory of a cached search, and memoryOfHit that of a version in its result.
	memoryOfSearch, memoryOfHit = 256, 16
	// memoryOfRule is the memory of a compiled CEL rule, in addition to memoryOfRuleByte for each byte.
	memoryOfRule, memoryOfRuleByte = 16 << 10, 128
	// memoryOfFacts is the memory of what a resolution notes about a bundle.
	memoryOfFacts = 256
	// memoryOfChange is the memory of a change in the answer, and memoryOfNeeder that of a Subscription that needs it.
	memoryOfChange, memoryOfNeeder = 800, 16
)

// LimitError reports that a resolution was stopped because it exceeded its Limits.
type LimitError struct {
	// Namespace is the namespace that was resolved, or "" if a bundle was checked for the whole cluster. Limits are the
	// limits that applied.
	Namespace string
	Limits    Limits
	// Late means that the time limit was exceeded rather than the cost limit.
	Late bool
	// Large means that the memory limit was exceeded.
	Large bool
	// Most describes the packages that used the most steps or memory, or contributed the most versions.
	Most []string
}

func (e *LimitError) Error() string {
	what := fmt.Sprintf("%d steps", e.Limits.Cost)
	switch {
	case e.Late:
		what = e.Limits.Time.String()
	case e.Large:
		what = fmt.Sprintf("%d MiB of memory", e.Limits.Memory>>20)
	}
	if e.Namespace == "" {
		return fmt.Sprintf("the check of the bundle's requirements was stopped after %s, the limit for one bundle", what)
	}
	text := fmt.Sprintf("resolution of namespace %s was stopped after %s, the limit for one namespace", e.Namespace, what)
	if len(e.Most) > 0 {
		text += "; most of the work was for " + join(e.Most)
	}
	return text
}

// meter counts the cost of one resolution. Its error is permanent: loops need not check it after each step, but must
// discard results that they find after the error.
type meter struct {
	ctx       context.Context //nolint:containedctx // a meter exists only for the call that has this context
	programs  *programs
	namespace string
	// global is the namespace of the global catalogs.
	global string
	limits Limits
	spent  int
	next   int
	calls  int
	err    error
	pacer  pacer
	// compiled caches the most recently compiled CEL rules.
	compiled map[string]cel.Program
	// operators contains the operators of tenants' catalogs, served those for kinds that the cluster serves, and here is the origin of
	// installed versions.
	operators map[*chain][]operator
	served    map[api]*operator
	needs     map[*facts]*needs
	// counted contains the operators whose requirements count toward memory, which is their total in bytes. memoryBy contains the
	// memory of each package.
	counted  map[*facts]bool
	memory   int64
	memoryBy map[source]int
	// ofProblems is the part of memory that the problems take which exist now, and ofRules that of the rules in compiled.
	ofProblems, ofRules int64
	here                origin
	// searches caches the results of searches in the catalogs of tenants.
	searches searches
	// by contains the cost of each operator. current is the operator that is being charged, and since is the value of
	// spent when the operator became current.
	by      map[*operator]int
	current *operator
	since   int
}

// source is a package that costs are attributed to, or a whole catalog if pkg is empty. The zero value is neither.
type source struct {
	catalog types.NamespacedName
	pkg     string
}

func (s source) String() string {
	switch {
	case s.catalog.Name == "":
		return fmt.Sprintf("installed package %s", s.pkg)
	case s.pkg == "":
		return fmt.Sprintf("catalogsource %s as a whole", s.catalog)
	}
	return fmt.Sprintf("package %s of catalogsource %s", s.pkg, s.catalog)
}

// attribute charges subsequent costs to an operator, or to none if o is nil.
func (m *meter) attribute(o *operator) {
	if m.spent > m.since {
		m.by[m.current] += m.spent - m.since
	}
	m.current, m.since = o, m.spent
}

func newMeter(ctx context.Context, in Input, limits Limits) *meter {
	return &meter{
		ctx: ctx, programs: &in.Indexes.programs, namespace: in.Namespace, global: in.GlobalCatalogNamespace, limits: limits, pacer: newPacer(clock.RealClock{}, limits.Idle), by: map[*operator]int{}, compiled: map[string]cel.Program{},
		operators: map[*chain][]operator{}, served: map[api]*operator{}, needs: map[*facts]*needs{}, counted: map[*facts]bool{}, memoryBy: map[source]int{}, here: *newOrigin(types.NamespacedName{}, "@existing", in.Namespace+"/"),
	}
}

// finish checks for cancellation one last time, and returns the meter's error.
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
		m.pacer.pause(m.ctx)
		return m.checkContext()
	}
	return m.err
}

// hold counts the memory that the requirements of an operator are estimated to need. They are built if there is no error. The limit applies
// to everything that is read in one resolution, because it may also be kept that long.
func (m *meter) hold(f *facts) error {
	if m.err == nil && !m.counted[f] {
		m.counted[f] = true
		return m.charge(memoryOfFacts + memoryOfNeeds(f.properties))
	}
	return m.err
}

// charge counts memory, in bytes, that exists until the resolution ends. It returns the meter's error: then, what the memory is for must
// not be allocated.
func (m *meter) charge(size int64) error {
	m.memory += size
	if m.current != nil {
		m.memoryBy[m.current.source()] += int(size)
	}
	if m.err == nil && m.limits.Memory > 0 && m.memory > m.limits.Memory {
		m.err = &LimitError{Namespace: m.namespace, Limits: m.limits, Large: true}
	}
	return m.err
}

// chargeProblem is charge for n parts of a problem, each of the given size. They exist until release.
func (m *meter) chargeProblem(n, size int) error {
	m.ofProblems += int64(n) * int64(size)
	return m.charge(int64(n) * int64(size))
}

// release frees the memory of problems, except for that which existed earlier.
func (m *meter) release(earlier int64) {
	m.memory, m.ofProblems = m.memory-m.ofProblems+earlier, earlier
}

// borrow checks that there is room for memory that is needed for a moment.
func (m *meter) borrow(size int64) error {
	defer func() { m.memory -= size }()
	return m.charge(size)
}

func (m *meter) isLarge() bool {
	var exceeded *LimitError
	return errors.As(m.err, &exceeded) && exceeded.Large
}

// checkContext checks for cancellation and timeout immediately. Call it before work that can take a long time in few steps.
func (m *meter) checkContext() error {
	switch err := m.ctx.Err(); {
	case m.err != nil || err == nil:
	case errors.Is(err, context.DeadlineExceeded):
		m.err = &LimitError{Namespace: m.namespace, Limits: m.limits, Late: true}
	default:
		m.err = fmt.Errorf("resolution of namespace %s: %w", m.namespace, err)
	}
	return m.err
}

// maxBlamed bounds the number of packages that a LimitError names.
const maxBlamed = 3

// most describes the packages with the highest cost. If the solver used most of the cost, these are the packages with
// the most versions.
func (m *meter) most(p *problem) []string {
	m.attribute(nil)
	by := map[source]int{}
	inSolver := m.by[nil] > m.spent/2
	switch {
	case m.isLarge():
		maps.Copy(by, m.memoryBy)
	case !inSolver || p == nil:
		for o, spent := range m.by {
			if o != nil {
				by[o.source()] += spent
			}
		}
	default:
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

// source returns the package that costs are attributed to.
func (o *operator) source() source { return source{o.catalog, o.pkg} }
