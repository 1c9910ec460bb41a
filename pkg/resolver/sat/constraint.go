package sat

// ID names a variable.
type ID string

// Kind is the kind of a Constraint.
type Kind int

// The kinds of constraints. The first four concern the variable that has them, and apply while it is in the solution;
// AtMost always applies.
const (
	// Mandatory requires the variable to be in the solution.
	Mandatory Kind = iota
	// Prohibited requires the variable not to be in the solution.
	Prohibited
	// Dependency requires at least one of IDs to be in the solution. Earlier ones are preferred.
	Dependency
	// Conflict requires none of IDs to be in the solution.
	Conflict
	// AtMost allows at most N of IDs in the solution.
	AtMost
)

// Constraint is one rule. Note belongs to the caller, who finds it in Unsatisfiable.
type Constraint struct {
	Kind Kind
	IDs  []ID
	N    int
	Note any
}

// Variable is a possible member of a solution, with its constraints. Variables, constraints and candidates are in order
// of preference.
type Variable struct {
	ID          ID
	Constraints []Constraint
}

// Applied is a constraint and the variable that has it; Variable is "" for a constraint on the whole problem.
type Applied struct {
	Variable   ID
	Constraint Constraint
}

// Unsatisfiable is an error with a minimal set of clashing constraints: every proper subset can be satisfied.
type Unsatisfiable struct{ Core []Applied }

func (e *Unsatisfiable) Error() string { return "the constraints cannot be satisfied" }
