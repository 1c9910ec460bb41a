package scoped

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// reader returns a fake client that contains the objects.
func reader(t *testing.T, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, operatorsv1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func group(name, account string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       operatorsv1.OperatorGroupSpec{ServiceAccountName: account},
	}
}

func serviceAccount(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name)}}
}

func TestAccount(t *testing.T) {
	boss := types.NamespacedName{Namespace: "remit", Name: "boss"}
	for _, row := range []struct {
		name     string
		fallback Default
		objects  []client.Object
		want     Account
		reason   Reason
		message  string
	}{
		{"the account that the OperatorGroup names", Default{}, []client.Object{group("og", "acct"), serviceAccount("ns", "acct")},
			Account{Namespace: "ns", Name: "acct", UID: "ns-acct"}, "", ""},
		{"the named account takes precedence over the default", Default{Account: boss}, []client.Object{group("og", "acct"), serviceAccount("ns", "acct"), serviceAccount("remit", "boss")},
			Account{Namespace: "ns", Name: "acct", UID: "ns-acct"}, "", ""},
		{"the default account if none is named", Default{Account: boss}, []client.Object{group("og", ""), serviceAccount("remit", "boss")},
			Account{Namespace: "remit", Name: "boss", UID: "remit-boss", Default: true}, "", ""},
		{"the default account in an allowed namespace", Default{Account: boss, Namespaces: []string{"x", "ns"}}, []client.Object{group("og", ""), serviceAccount("remit", "boss")},
			Account{Namespace: "remit", Name: "boss", UID: "remit-boss", Default: true}, "", ""},
		{"no default account in another namespace", Default{Account: boss, Namespaces: []string{"x"}}, []client.Object{group("og", ""), serviceAccount("remit", "boss")},
			Account{}, NoAccount, "OperatorGroup ns/og does not name a ServiceAccount (spec.serviceAccountName) and no default account is configured"},
		{"no default account", Default{}, []client.Object{group("og", "")}, Account{}, NoAccount, "nothing can be installed"},
		{"no OperatorGroup", Default{Account: boss}, []client.Object{serviceAccount("remit", "boss")},
			Account{}, NoOperatorGroup, `namespace "ns" has no OperatorGroup`},
		{"two OperatorGroups", Default{Account: boss}, []client.Object{group("b", "acct"), group("a", "acct"), serviceAccount("ns", "acct")},
			Account{}, TooManyOperatorGroups, `namespace "ns" has 2 OperatorGroups (a, b); exactly one is required`},
		{"an invalid name", Default{}, []client.Object{group("og", "../x")}, Account{}, AccountNameInvalid, `OperatorGroup ns/og: spec.serviceAccountName "../x" is not a valid name`},
		{"a ServiceAccount that does not exist", Default{}, []client.Object{group("og", "acct"), serviceAccount("other", "acct")},
			Account{}, AccountMissing, "ServiceAccount acct not found"},
		{"a default account that does not exist", Default{Account: boss}, []client.Object{group("og", "")},
			Account{}, AccountMissing, "ServiceAccount remit/boss (the installation's default account) not found"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, og, err := Lookup{Reader: reader(t, row.objects...), Default: row.fallback}.Account(t.Context(), "ns")
			require.Equal(t, row.want, got)
			require.Equal(t, row.reason, ReasonOf(err))
			if row.reason == "" {
				require.NoError(t, err)
				require.Equal(t, "og", og.Name)
				return
			}
			require.ErrorContains(t, err, row.message)
		})
	}
}

func TestUserNameOfAnAccount(t *testing.T) {
	a := Account{Namespace: "ns", Name: "acct"}
	require.Equal(t, "system:serviceaccount:ns:acct", Username(a.Namespace, a.Name))
	require.Equal(t, "ns/acct", a.Key().String())
}

func TestParseKey(t *testing.T) {
	for text, problem := range map[string]string{
		"ns/acct":  "",
		"acct":     `"acct" is not of the form <namespace>/<name>`,
		"":         "is not of the form",
		"/acct":    "is not of the form",
		"ns/":      "is not of the form",
		"ns/a/b":   "is not of the form",
		"ns/A":     `"A" is not a valid ServiceAccount name`,
		"n.s/acct": `"n.s" is not a valid namespace name`,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseKey(text)
			if problem != "" {
				require.ErrorContains(t, err, problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, text, got.String())
		})
	}
}

func TestTargets(t *testing.T) {
	namespace := func(name, team string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
	}
	leaving := namespace("leaving", "a")
	leaving.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	leaving.SetFinalizers([]string{"x"})
	l := Lookup{Reader: reader(t, serviceAccount("ns", "acct"), namespace("z", "a"), namespace("b", "a"), namespace("c", "c"), namespace("hidden", "a"), leaving)}
	team := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": name}}
	}
	for _, row := range []struct {
		name     string
		listed   []string
		selector *metav1.LabelSelector
		want     string
	}{
		{"all namespaces if there are no targets and no selector", nil, nil, "[]"},
		{"all namespaces with an empty selector", nil, &metav1.LabelSelector{}, "[]"},
		{"the listed namespaces, sorted and unique", []string{"z", "a", "z"}, nil, "[a z]"},
		{"listed namespaces take precedence over a selector", []string{"x"}, team("a"), "[x]"},
		{"all namespaces if the list contains the empty name", []string{"x", ""}, nil, "[]"},
		{"selected namespaces that the account can get and that are not being deleted", nil, team("a"), "[b z]"},
		{"a listed namespace that the account cannot get", []string{"hidden"}, nil, "[hidden]"},
		{"none", nil, team("nobody"), "none"},
	} {
		t.Run(row.name, func(t *testing.T) {
			og := group("og", "acct")
			og.Spec.TargetNamespaces, og.Spec.Selector = row.listed, row.selector
			got, err := l.Targets(t.Context(), og, blindTo("hidden"))
			require.NoError(t, err)
			if row.want == "none" {
				require.Empty(t, got)
				return
			}
			require.Equal(t, row.want, "["+strings.Join(got, " ")+"]")
			require.NotEmpty(t, got)
		})
	}
	og := group("og", "acct")
	og.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	_, err := l.Targets(t.Context(), og, blindTo(""))
	require.ErrorContains(t, err, "selector of OperatorGroup ns/og")
}

func TestLimitsTargets(t *testing.T) {
	objects := []client.Object{serviceAccount("ns", "acct")}
	var listed []string
	for i := range MaxTargets + 1 {
		name := fmt.Sprint("n", i)
		listed = append(listed, name)
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "a"}}})
	}
	l := Lookup{Reader: reader(t, objects...)}
	og := group("og", "acct")
	for does, set := range map[string]func(n int){
		"lists": func(n int) { og.Spec.TargetNamespaces, og.Spec.Selector = listed[:n], nil },
		"selects": func(int) {
			og.Spec.TargetNamespaces, og.Spec.Selector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		},
	} {
		set(MaxTargets)
		got, err := l.Targets(t.Context(), og, blindTo("n0"))
		require.NoError(t, err, does)
		require.Len(t, got, MaxTargets, does)
		set(MaxTargets + 1)
		_, err = l.Targets(t.Context(), og, blindTo(""))
		require.Equal(t, TooManyTargets, ReasonOf(err), does)
		require.ErrorContains(t, err, "OperatorGroup ns/og "+does+" too many target namespaces, the limit is 1000")
	}
}

func TestASelectorRequiresAnAccount(t *testing.T) {
	l := Lookup{Reader: reader(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"team": "a"}}})}
	for account, reason := range map[string]Reason{"": NoAccount, "later": AccountMissing} {
		og := group("og", account)
		og.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		got, err := l.Targets(t.Context(), og, blindTo(""))
		require.Equal(t, reason, ReasonOf(err))
		require.Empty(t, got)
	}
}

// blindTo is a NamespaceFilter for an account that can get every namespace except this one.
type blindTo string

func (b blindTo) Gettable(_ context.Context, _ Account, namespaces []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(namespaces), func(name string) bool { return name == string(b) }), nil
}
