package resolver

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/utils/lru"

	"github.com/remit-olm/remit/pkg/catalog/versions"
	"github.com/remit-olm/remit/pkg/lib/budget"
)

const (
	// maxRule bounds the length of a CEL rule, in bytes, and maxCost bounds the cost of one evaluation, in CEL's cost
	// units, because rules are untrusted input. Limits bounds the total cost of all evaluations in a resolution.
	maxRule = 2 << 10
	maxCost = 1_000_000
	// maxRules bounds the number of CEL rules in one requirement; maxPrograms bounds the number of compiled rules that
	// are cached for one resolution, and maxKeptPrograms for all namespaces together. A compiled rule can take a quarter of a MiB.
	maxRules        = 100
	maxPrograms     = 500
	maxKeptPrograms = 64
	// interruptEvery is the number of iterations after which an evaluation checks for cancellation.
	interruptEvery = 100
)

// celEnvironment declares what a rule can use: the variable "properties" (a list of maps with type and value) and the
// function semver_compare (operator-framework/api, pkg/constraints).
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("properties", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		cel.Function("semver_compare", cel.Overload("semver_compare",
			[]*cel.Type{cel.DynType, cel.DynType}, cel.IntType, cel.BinaryBinding(compareVersions))),
	)
})

func compareVersions(a, b ref.Val) ref.Val {
	var parsedVersions [2]semver.Version
	for i, v := range []ref.Val{a, b} {
		text, isScalar := scalar(v)
		if !isScalar {
			return types.NewErr("unable to parse a %s to semver format", v.Type().TypeName())
		}
		if len(text) > versions.MaxVersion {
			return types.NewErr("a version has more than %d characters", versions.MaxVersion)
		}
		parsed, err := versions.ParseTolerant(text)
		if err != nil {
			return types.NewErr("unable to parse '%v' to semver format", v.Value())
		}
		parsedVersions[i] = parsed
	}
	return types.Int(parsedVersions[0].Compare(parsedVersions[1]))
}

// scalar returns the text of a string or a number. That of a list or map would take long and is no version.
func scalar(v ref.Val) (string, bool) {
	switch value := v.(type) {
	case types.String:
		return string(value), true
	case types.Int, types.Uint, types.Double:
		return fmt.Sprint(v.Value()), true
	default:
		return "", false
	}
}

// programs caches the most recently compiled rules, keyed by their text. Requirements store only the text of a rule, so
// their memory is proportional to the size of their catalogs.
type programs struct {
	once sync.Once
	kept *lru.Cache
}

func (c *programs) get(rule string) (cel.Program, error) {
	c.once.Do(func() { c.kept = lru.New(maxKeptPrograms) })
	if kept, ok := c.kept.Get(rule); ok {
		return kept.(cel.Program), nil
	}
	program, err := compile(rule)
	if err == nil {
		c.kept.Add(rule, program)
	}
	return program, err
}

// program returns the compiled form of a rule. The caller has already spent the cost of compiling it, so a cache hit
// saves time, but not cost.
func (m *meter) program(rule string) (cel.Program, error) {
	if p, ok := m.compiled[rule]; ok {
		return p, nil
	}
	p, err := m.programs.get(rule)
	if err != nil {
		return nil, err
	}
	if len(m.compiled) >= maxPrograms {
		clear(m.compiled)
		m.memory, m.ofRules = m.memory-m.ofRules, 0
	}
	m.compiled[rule] = p
	size := int64(memoryOfRule + memoryOfRuleByte*len(rule))
	m.ofRules += size
	if err := m.charge(size); err != nil {
		return nil, err
	}
	return p, nil
}

func compile(rule string) (cel.Program, error) {
	env, err := celEnvironment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(rule)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("CEL rule: %w", err)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("CEL rule %q does not return a boolean", rule)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptTrackCost), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, fmt.Errorf("CEL rule: %w", err)
	}
	return program, nil
}

// celRequired returns a requirement for an operator whose properties satisfy the rule. A rule that fails to
// evaluate does not match.
func celRequired(m *meter, rule string) (requirement, error) {
	if len(rule) > maxRule {
		return requirement{}, fmt.Errorf("the CEL rule is longer than %d bytes", maxRule)
	}
	cost := costOfCompiling + costOfRuleByte*len(rule)
	if err := m.Spend(cost); err != nil {
		return requirement{}, err
	}
	if _, err := m.program(rule); err != nil {
		return requirement{}, err
	}
	return requirement{text: fmt.Sprintf("that satisfies the CEL rule %q", rule), rules: 1, cost: cost, match: func(m *meter, f *facts) bool {
		program, err := m.program(rule)
		return err == nil && m.evaluate(program, f)
	}}, nil
}

// evaluate reports whether the rule is true for an operator. It spends the actual cost of the evaluation, even if the
// evaluation fails.
func (m *meter) evaluate(program cel.Program, f *facts) bool {
	if m.Spend(costOfEvaluating+f.size()*costOfByte/10) != nil || m.borrow(f.memoryOfValues()) != nil {
		return false
	}
	value, details, err := program.ContextEval(m.ctx, map[string]any{"properties": f.celValues()})
	cost := uint64(maxCost)
	if details != nil && details.ActualCost() != nil {
		cost = min(cost, *details.ActualCost())
	}
	return m.Spend(int(cost)) == nil && err == nil && value == types.True
}

// size returns the total size of the property values, in bytes.
func (f *facts) size() int {
	n := 0
	for _, p := range f.properties {
		n += len(p.Value)
	}
	return n
}

// memoryOfValues returns the memory of what celValues returns, in bytes.
func (f *facts) memoryOfValues() (size int64) {
	for _, p := range f.properties {
		size += budget.JSONCost(p.Value)
	}
	return size
}

// celValues returns the properties in the form in which a rule receives them.
func (f *facts) celValues() []map[string]any {
	out := make([]map[string]any, 0, len(f.properties))
	for _, p := range f.properties {
		var value any
		if json.Unmarshal(p.Value, &value) == nil {
			out = append(out, map[string]any{"type": p.Type, "value": value})
		}
	}
	return out
}
