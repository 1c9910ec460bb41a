package resolver

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxRule bounds the text of a CEL rule, in bytes, and maxCost what one evaluation of it may do, in CEL's
	// own measure: a rule is hostile bytes.
	maxRule = 16 << 10
	maxCost = 1_000_000
)

// celEnvironment has what a rule may use: the variable properties, a list of maps with type and value, and the
// function semver_compare (operator-framework/api, pkg/constraints).
var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("properties", cel.ListType(cel.MapType(cel.StringType, cel.DynType))),
		cel.Function("semver_compare", cel.Overload("semver_compare",
			[]*cel.Type{cel.DynType, cel.DynType}, cel.IntType, cel.BinaryBinding(compareVersions))),
	)
})

func compareVersions(a, b ref.Val) ref.Val {
	var versions [2]semver.Version
	for i, v := range []ref.Val{a, b} {
		parsed, err := semver.ParseTolerant(fmt.Sprint(v.Value()))
		if err != nil {
			return types.NewErr("unable to parse '%v' to semver format", v.Value())
		}
		versions[i] = parsed
	}
	return types.Int(versions[0].Compare(versions[1]))
}

// celRequired asks for an operator over whose properties the rule is true. A rule that fails there is not.
func celRequired(rule string) (requirement, error) {
	if len(rule) > maxRule {
		return requirement{}, fmt.Errorf("its CEL rule has more than %d bytes", maxRule)
	}
	env, err := celEnvironment()
	if err != nil {
		return requirement{}, err
	}
	ast, issues := env.Compile(rule)
	if err := issues.Err(); err != nil {
		return requirement{}, fmt.Errorf("CEL rule: %w", err)
	}
	if ast.OutputType() != cel.BoolType {
		return requirement{}, fmt.Errorf("CEL rule %q is not a condition", rule)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost))
	if err != nil {
		return requirement{}, fmt.Errorf("CEL rule: %w", err)
	}
	return requirement{text: fmt.Sprintf("for which the rule %q holds", rule), match: func(f *facts) bool {
		value, _, err := program.Eval(map[string]any{"properties": f.celValues()})
		return err == nil && value == types.True
	}}, nil
}

// celValues are the properties as a rule sees them.
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
