package warrant

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestFindingsDenyOperations(t *testing.T) {
	all := []Operation{Prepare, Install, Renew, Retire, Publish, Shrink, Narrow, CleanUp}
	bad := errors.New("bad")
	sound := Findings{Evaluated: true}
	for _, tc := range []struct {
		name    string
		edit    func(*Findings)
		allowed []Operation
	}{
		{"no adverse findings", func(*Findings) {}, []Operation{Prepare, Install, Renew}},
		{"not evaluated", func(f *Findings) { f.Evaluated = false }, []Operation{Prepare}},
		{"unfit", func(f *Findings) { f.Ineligible, f.Same, f.Ready = bad, true, true }, nil},
		{"excess", func(f *Findings) { f.Excess = bad }, nil},
		{"not prepared", func(f *Findings) { f.Prepared = bad }, []Operation{Prepare}},
		{"settling", func(f *Findings) { f.Unsynced = true }, []Operation{Prepare}},
		{"unmet", func(f *Findings) { f.Unmet = true }, []Operation{Prepare}},
		{"refused", func(f *Findings) { f.Refused = bad }, []Operation{Prepare}},
		{"the operator runs, and the account lost permissions", func(f *Findings) { f.Excess, f.Unmet, f.Same = bad, true, true }, []Operation{Renew}},
		{"the operator is ready, and the account lost permissions", func(f *Findings) { f.Excess, f.Same, f.Ready = bad, true, true }, []Operation{Renew, Retire, Publish}},
		{"the operator exceeds the account", func(f *Findings) { f.Ineligible, f.Exceeds = bad, true }, []Operation{Shrink}},
		{"a Role was not confirmed", func(f *Findings) { f.Ineligible, f.Unconfirmed = bad, true }, []Operation{Shrink}},
		{"a webhook exceeds the account", func(f *Findings) { f.Ineligible, f.Intercepts = bad, true }, []Operation{Narrow}},
		{"the OperatorGroup is being deleted", func(f *Findings) { f.GroupDeleted, f.Same, f.Ready = bad, true, true }, []Operation{Retire}},
		{"the OperatorGroup of an operator that exceeds the account is being deleted", func(f *Findings) { f.GroupDeleted, f.Exceeds, f.Intercepts = bad, true, true }, []Operation{Shrink, Narrow}},
		{"the operator of an OperatorGroup that is being deleted is being removed", func(f *Findings) { f.GroupDeleted, f.Obsolete = bad, true }, []Operation{CleanUp}},
		{"the operator is being removed", func(f *Findings) { f.Ineligible, f.Obsolete = bad, true }, []Operation{CleanUp}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := sound
			tc.edit(&f)
			var allowed []Operation
			for _, d := range all {
				if f.Err(d) == nil {
					allowed = append(allowed, d)
				}
			}
			require.Equal(t, tc.allowed, allowed)
		})
	}
	require.Error(t, sound.Err("unknown"))
}

func TestForReturnsTheClientOnlyIfAllowed(t *testing.T) {
	_, err := Account{}.For(Prepare, Findings{})
	require.ErrorContains(t, err, "no account")

	type any struct{ client.Client }
	a := Of(any{})
	got, err := a.For(Prepare, Findings{})
	require.NoError(t, err)
	require.NotNil(t, got)

	got, err = a.For(Install, Findings{})
	require.Nil(t, got)
	require.ErrorContains(t, err, "not allowed to install: ")
}
