package warrant

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestWhatEachFindingBars(t *testing.T) {
	all := []Deed{Prepare, Install, Renew, Tidy, Bury}
	bad := errors.New("bad")
	sound := Findings{Judged: true}
	for _, tc := range []struct {
		name    string
		edit    func(*Findings)
		allowed []Deed
	}{
		{"all is well", func(*Findings) {}, []Deed{Prepare, Install, Renew}},
		{"not looked at yet", func(f *Findings) { f.Judged = false }, []Deed{Prepare}},
		{"unfit", func(f *Findings) { f.Unfit, f.Same, f.Ready = bad, true, true }, nil},
		{"excess", func(f *Findings) { f.Excess = bad }, nil},
		{"not prepared", func(f *Findings) { f.Prepared = bad }, []Deed{Prepare}},
		{"settling", func(f *Findings) { f.Settling = true }, []Deed{Prepare}},
		{"unmet", func(f *Findings) { f.Unmet = true }, []Deed{Prepare}},
		{"refused", func(f *Findings) { f.Refused = bad }, []Deed{Prepare}},
		{"it runs, and the account has shrunk", func(f *Findings) { f.Excess, f.Unmet, f.Same = bad, true, true }, []Deed{Renew}},
		{"it is ready, and the account has shrunk", func(f *Findings) { f.Excess, f.Same, f.Ready = bad, true, true }, []Deed{Renew, Tidy}},
		{"it goes", func(f *Findings) { f.Unfit, f.Goes = bad, true }, []Deed{Bury}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := sound
			tc.edit(&f)
			var allowed []Deed
			for _, d := range all {
				if f.Err(d) == nil {
					allowed = append(allowed, d)
				}
			}
			require.Equal(t, tc.allowed, allowed)
		})
	}
	require.Error(t, sound.Err("write what you like"))
}

func TestTheClientIsGivenOutOnlyForWhatIsAllowed(t *testing.T) {
	_, err := Account{}.For(Prepare, Findings{})
	require.ErrorContains(t, err, "no account")

	type any struct{ client.Client }
	a := Of(any{})
	got, err := a.For(Prepare, Findings{})
	require.NoError(t, err)
	require.NotNil(t, got)

	got, err = a.For(Install, Findings{})
	require.Nil(t, got)
	var barred *BarredError
	require.ErrorAs(t, err, &barred)
	require.Equal(t, Install, barred.Deed)
}
