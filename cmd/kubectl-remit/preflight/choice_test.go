package preflight

import (
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/remit-olm/remit/cmd/kubectl-remit/internal/source"
	"github.com/remit-olm/remit/pkg/controller"
	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/resolver"
	"github.com/remit-olm/remit/test/escape/forge"
)

// offered is a catalog in a ConfigMap with the package app, whose default channel has the bundle app.v1.
type offered struct {
	objs []client.Object
	// digest is the digest of the bundle.
	digest string
}

func offer(t *testing.T) offered {
	t.Helper()
	b := forge.Of("app", forge.NewCSV("app.v1.0.0"))
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogs", Name: "content"}, Data: map[string]string{"catalog.yaml": forge.Catalog(b)}}
	src := &operatorsv1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: "catalogs", Name: "cat"},
		Spec: operatorsv1alpha1.CatalogSourceSpec{SourceType: operatorsv1alpha1.SourceTypeConfigmap, ConfigMap: "content"}}
	out := offered{objs: []client.Object{cm, src}}
	origins := source.OriginsOf(t.Context(), reads(t, out.objs...), []resolver.Pin{pin("")}, nil)
	require.True(t, origins[0].Differs, origins[0].Reason)
	_, rest, _ := strings.Cut(origins[0].Reason, "has digest ")
	out.digest, _, _ = strings.Cut(rest, ",")
	return out
}

func reads(t *testing.T, objs ...client.Object) client.Client {
	t.Helper()
	scheme, err := controller.NewScheme()
	require.NoError(t, err)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objs...).Build()
}

func pin(digest string) resolver.Pin {
	return resolver.Pin{Subscription: "sub", SubscriptionUID: "uid", CatalogNamespace: "catalogs", Catalog: "cat", Package: "app",
		Channel: forge.Channel, Bundle: "app.v1.0.0", Digest: digest}
}

func subscription() *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "sub", UID: "uid"},
		Spec: &operatorsv1alpha1.SubscriptionSpec{CatalogSource: "cat", CatalogSourceNamespace: "catalogs", Package: "app"}}
}

// planOn returns an InstallPlan with pins and a matching name.
func planOn(pins ...resolver.Pin) *operatorsv1alpha1.InstallPlan {
	plan := resolver.Plan{Namespace: "team-a", Pins: pins}
	return &operatorsv1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: plan.Name(),
		Annotations: map[string]string{names.AnnotationPlan: plan.Encode()}}}
}

// with returns a plan's pin after a change.
func with(digest string, change func(*resolver.Pin)) resolver.Pin {
	p := pin(digest)
	change(&p)
	return p
}

func because(plan *operatorsv1alpha1.InstallPlan, reason string) *operatorsv1alpha1.InstallPlan {
	plan.Status.Conditions = []operatorsv1alpha1.InstallPlanCondition{{Type: operatorsv1alpha1.InstallPlanInstalled, Status: corev1.ConditionFalse,
		Reason: operatorsv1alpha1.InstallPlanConditionReason(reason)}}
	return plan
}

func inPhase(plan *operatorsv1alpha1.InstallPlan, phase operatorsv1alpha1.InstallPlanPhase) *operatorsv1alpha1.InstallPlan {
	plan.Status.Phase = phase
	return plan
}

func TestTheStatusOfASubscriptionDoesNotSelectItsPlan(t *testing.T) {
	catalogs := offer(t)
	genuine := planOn(pin(catalogs.digest))
	for name, other := range map[string]*operatorsv1alpha1.InstallPlan{
		"other content":         planOn(pin("sha256:other")),
		"another Subscription":  planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Subscription = "x" })),
		"another UID":           planOn(with(catalogs.digest, func(p *resolver.Pin) { p.SubscriptionUID = "x" })),
		"another catalog":       planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Catalog = "x" })),
		"another namespace":     planOn(with(catalogs.digest, func(p *resolver.Pin) { p.CatalogNamespace = "team-a" })),
		"another package":       planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Package = "x" })),
		"another bundle":        planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Bundle = "x" })),
		"an additional bundle":  planOn(pin(catalogs.digest), with(catalogs.digest, func(p *resolver.Pin) { p.SubscriptionUID = "x" })),
		"a complete plan":       inPhase(planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Again = "x" })), operatorsv1alpha1.InstallPlanPhaseComplete),
		"a failed plan":         inPhase(planOn(pin("sha256:other")), operatorsv1alpha1.InstallPlanPhaseFailed),
		"a superseded plan":     because(planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Again = "x" })), names.ReasonSuperseded),
		"content not available": because(planOn(with(catalogs.digest, func(p *resolver.Pin) { p.Again = "x" })), names.ReasonBundleContentUnavailable),
	} {
		t.Run(name, func(t *testing.T) {
			sub := subscription()
			sub.Status.InstallPlanRef = &corev1.ObjectReference{Name: other.Name}
			plan, err := planOf(t.Context(), reads(t, append(catalogs.objs, sub, genuine, other)...), sub, nil)
			require.NoError(t, err)
			require.Equal(t, genuine.Name, plan.Name)

			plan, err = planOf(t.Context(), reads(t, sub, genuine, other), sub, nil)
			if name == "other content" || name == "another bundle" { // without the catalog, this cannot be known
				require.ErrorContains(t, err, "has several InstallPlans that are not finished")
				return
			}
			require.NoError(t, err)
			require.Equal(t, genuine.Name, plan.Name)
		})
	}
}

func TestAPlanForAnotherChannelIsNotThePlan(t *testing.T) {
	catalogs := offer(t)
	sub := subscription()
	sub.Spec.Channel = "other"
	_, err := planOf(t.Context(), reads(t, append(catalogs.objs, sub, planOn(pin(catalogs.digest)))...), sub, nil)
	require.ErrorContains(t, err, "has no InstallPlan yet")
}

func TestSeveralPlansOfWhichNoneIsConfirmed(t *testing.T) {
	sub := subscription()
	a, b := planOn(pin("sha256:a")), planOn(pin("sha256:b"))
	_, err := planOf(t.Context(), reads(t, sub, a, b), sub, nil)
	require.ErrorContains(t, err, "has several InstallPlans that are not finished")
	require.ErrorContains(t, err, a.Name)
	require.ErrorContains(t, err, b.Name)
}

func TestTheStatusSelectsAmongFinishedPlans(t *testing.T) {
	sub := subscription()
	a, b := inPhase(planOn(pin("sha256:a")), operatorsv1alpha1.InstallPlanPhaseComplete), inPhase(planOn(pin("sha256:b")), operatorsv1alpha1.InstallPlanPhaseComplete)
	a.Spec.Generation, b.Spec.Generation = 1, 2
	c := because(planOn(pin("sha256:c")), names.ReasonBundleContentUnavailable)
	c.Spec.Generation = 3
	for ref, want := range map[string]string{a.Name: a.Name, "none": b.Name, c.Name: b.Name} {
		sub.Status.InstallPlanRef = &corev1.ObjectReference{Name: ref}
		plan, err := planOf(t.Context(), reads(t, sub, a, b, c), sub, nil)
		require.NoError(t, err)
		require.Equal(t, want, plan.Name)
	}
}

func TestWhatIsConfirmed(t *testing.T) {
	catalogs := offer(t)
	given := bundleOf(t)
	own := with(given.Content.Digest(), func(p *resolver.Pin) { p.Bundle = given.CSV.Name })
	dependency := with(catalogs.digest, func(p *resolver.Pin) { p.Subscription, p.SubscriptionUID = "dependency", "x" })
	for name, c := range map[string]struct {
		pins    []resolver.Pin
		given   []*source.Bundle
		channel string
		objs    []client.Object
		open    string
		differs string
	}{
		"by the catalog":                    {pins: []resolver.Pin{pin(catalogs.digest)}, objs: catalogs.objs},
		"by the catalog, with a channel":    {pins: []resolver.Pin{pin(catalogs.digest)}, objs: catalogs.objs, channel: forge.Channel},
		"by --bundle":                       {pins: []resolver.Pin{own}, given: []*source.Bundle{given}},
		"no catalog":                        {pins: []resolver.Pin{pin(catalogs.digest)}, open: "app.v1.0.0"},
		"other content of the catalog":      {pins: []resolver.Pin{pin("sha256:x")}, objs: catalogs.objs, open: "app.v1.0.0", differs: "but the plan requires digest sha256:x"},
		"other content of --bundle":         {pins: []resolver.Pin{with("sha256:x", func(p *resolver.Pin) { p.Bundle = given.CSV.Name })}, given: []*source.Bundle{given}, open: given.CSV.Name, differs: "but the plan requires digest sha256:x"},
		"another bundle of the catalog":     {pins: []resolver.Pin{pin(catalogs.digest), dependency}, objs: catalogs.objs, open: "app.v1.0.0"},
		"a channel that the catalog lacks":  {pins: []resolver.Pin{with(catalogs.digest, func(p *resolver.Pin) { p.Channel = "x" })}, objs: catalogs.objs, open: "app.v1.0.0"},
		"another package with that content": {pins: []resolver.Pin{with(catalogs.digest, func(p *resolver.Pin) { p.Package = "x" })}, objs: catalogs.objs, open: "app.v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := subscription()
			sub.Spec.Channel = c.channel
			i := &input{what: "InstallPlan p", plan: planOn(c.pins...), subscription: sub, origins: source.OriginsOf(t.Context(), reads(t, c.objs...), c.pins, c.given)}
			err := i.unconfirmed()
			if c.open == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "("+c.open+")")
			}
			if c.differs == "" {
				require.NoError(t, i.notExecuted())
			} else {
				require.ErrorContains(t, i.notExecuted(), c.differs)
			}
			i.subscription = nil // the user named the plan
			require.NoError(t, i.unconfirmed())
			require.Equal(t, c.objs == nil && c.given == nil || c.open != "" && name != "another bundle of the catalog",
				strings.Contains(strings.Join(i.originNotes(), "\n"), source.Unproven))
		})
	}
}

func TestOnlyTheDefaultChannelIsSelectedWithoutAChannel(t *testing.T) {
	o := source.Origin{Pin: pin("x"), Confirmed: "CatalogSource", DefaultChannel: "other"}
	sub := subscription()
	require.True(t, isOpen(sub)(o))
	sub.Spec.Channel = forge.Channel
	require.False(t, isOpen(sub)(o))
}

func TestNothingIsGrantedForAPlanThatIsNotExecuted(t *testing.T) {
	for want, plan := range map[string]*operatorsv1alpha1.InstallPlan{
		"is finished, with phase Complete":           inPhase(planOn(pin("x")), operatorsv1alpha1.InstallPlanPhaseComplete),
		"is finished, with phase Failed":             inPhase(planOn(pin("x")), operatorsv1alpha1.InstallPlanPhaseFailed),
		"is superseded by a newer InstallPlan":       because(planOn(pin("x")), names.ReasonSuperseded),
		"has content that its CatalogSources do not": because(planOn(pin("x")), names.ReasonBundleContentUnavailable),
		"": inPhase(planOn(pin("x")), operatorsv1alpha1.InstallPlanPhaseInstalling),
	} {
		i := &input{what: "InstallPlan p", plan: plan}
		if want == "" {
			require.NoError(t, i.notExecuted())
			continue
		}
		require.ErrorContains(t, i.notExecuted(), want)
		require.Contains(t, strings.Join(i.originNotes(), "\n"), want)
	}
}

func bundleOf(t *testing.T) *source.Bundle {
	t.Helper()
	b, err := (&source.Flags{}).Load(t.Context(), sampleDir(t))
	require.NoError(t, err)
	return b
}
