package sat

// ID names a variable.
type ID string

// Kind is that of a Constraint.
type Kind int

// The kinds of constraints. The first four are about the variable that has them, as long as it is in the
// solution; AtMost holds always.
const (
	// Mandatory: the variable is in the solution.
	Mandatory Kind = iota
	// Prohibited: it is not.
	Prohibited
	// Dependency: with it, at least one of IDs is, the earlier the better.
	Dependency
	// Conflict: with it, none of IDs is.
	Conflict
	// AtMost: no more than N of IDs are in the solution.
	AtMost
)

// Constraint is one rule. Note is the caller's: it comes back with a clash.
type Constraint struct {
	Kind Kind
	IDs  []ID
	N    int
	Note any
}

// Variable is what may be in a solution, with its constraints. The order of variables, constraints and
// candidates is that of preference.
type Variable struct {
	ID          ID
	Constraints []Constraint
}

// Applied is a constraint and the variable that has it; "" for one of the whole problem.
type Applied struct {
	Variable   ID
	Constraint Constraint
}

// Unsatisfiable is an error that holds constraints of which no subset clashes already.
type Unsatisfiable struct{ Core []Applied }

func (e *Unsatisfiable) Error() string { return "the constraints cannot be satisfied" }
