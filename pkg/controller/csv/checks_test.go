package csv

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/remit-olm/remit/pkg/install/hooks"
)

// Users fix one problem at a time, and the reasons appear in the order of the checks.
func TestReasonsAppearInTheOrderOfTheChecks(t *testing.T) {
	f := given(phasePending, reasonRequirementsUnknown, func(f *Facts) {
		f.ReplacedBy, f.Group = "demo.v2", &Problem{reasonNoOperatorGroup, messageNoGroup}
		f.Strategy, f.Webhooks, f.APIs, f.Taken = errors.New("s"), errors.New("w"), errors.New("a"), errors.New("t")
		f.Contested = "k"
		f.Waits, f.Prepared, f.Unsynced, f.Excess, f.Unmet = "x", errors.New("p"), true, denied, true
	})
	for _, row := range []struct {
		want string
		fix  func()
	}{
		{"being replaced by csv: demo.v2", func() { f.ReplacedBy = "" }},
		{messageNoGroup, func() { f.Group = nil }},
		{"install strategy invalid: s", func() { f.Strategy = nil }},
		{"w", func() { f.Webhooks = nil }},
		{"a", func() { f.APIs = nil }},
		{"unable to adopt APIService: t", func() { f.Taken = nil }},
		{"conflicting CRD owner in namespace", func() { f.Contested = "" }},
		{"requirements not yet checked: x", func() { f.Waits = "" }},
		{messageNotMet + ": p", func() { f.Prepared = nil }},
		{"before", func() { f.Unsynced = false }},
		{messageNotMet + ": " + denied.Error(), func() { f.Excess = nil }},
		{messageNotMet, func() { f.Unmet = false }},
		{messageMet, func() {}},
	} {
		require.Equal(t, row.want, Next(f).Message)
		row.fix()
	}
}

func TestAnOperatorThatDoesNotAnswerIsReported(t *testing.T) {
	got := callsAnswered(Facts{Calls: hooks.State{Unavailable: true, Problem: "Service t1/demo has no ready Pods"}})
	require.Equal(t, to(phaseFailed, "APIServiceResourceIssue", "Service t1/demo has no ready Pods"), *got)
	require.Nil(t, callsAnswered(Facts{}))
}
