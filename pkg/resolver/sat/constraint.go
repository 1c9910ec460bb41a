package sat

// ID names a variable. IDs are equal if they have the same name and the same scope. They share the text of their scopes, because
// a problem can have a hundred thousand of them, and contains each of them many times.
type ID struct {
	Scope *Scope
	Name  string
}

// Scope distinguishes variables of the same name. Two scopes are different even if their texts are equal.
type Scope struct{ In, Name string }

// String returns the ID as text, for messages.
func (id ID) String() string {
	switch {
	case id.Scope == nil:
		return id.Name
	case id.Scope.Name == "":
		return id.Scope.In + "/" + id.Name
	}
	return id.Scope.In + "/" + id.Scope.Name + "/" + id.Name
}

// Kind is the kind of a Constraint.
type Kind int

// The kinds of constraints. The first three concern the variable that has them; Dependency applies only if this
// variable is in the solution. AtMostOne always applies.
const (
	// Mandatory requires the variable to be in the solution.
	Mandatory Kind = iota
	// Prohibited requires the variable not to be in the solution.
	Prohibited
	// Dependency requires at least one of IDs to be in the solution. Earlier ones are preferred.
	Dependency
	// AtMostOne allows at most one of IDs in the solution.
	AtMostOne
)

// Constraint is one rule. Note is for the caller: it is returned in Unsatisfiable.
type Constraint struct {
	Kind Kind
	IDs  []ID
	Note any
}

// Variable is a possible member of a solution, with its constraints. Variables, constraints and candidates are in order
// of preference.
type Variable struct {
	ID          ID
	Constraints []Constraint
}

// Applied is a constraint and the variable that has it; Variable is the zero ID for a constraint on the whole problem.
type Applied struct {
	Variable   ID
	Constraint Constraint
}

// Unsatisfiable is an error with a minimal set of clashing constraints: every proper subset can be satisfied.
type Unsatisfiable struct{ Core []Applied }

func (e *Unsatisfiable) Error() string { return "the constraints cannot be satisfied" }
