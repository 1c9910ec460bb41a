package assess

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/pkg/install/serving"
	"github.com/remit-olm/remit/pkg/preflight"
	"github.com/remit-olm/remit/pkg/step"
	"github.com/remit-olm/remit/pkg/step/execute"
)

// RefuseUnserved adds a refusal to the report for each object whose kind is not served. If the kinds of the provider that issues
// the certificates are not served, a single refusal reports that the provider is missing.
func RefuseUnserved(report *preflight.Report, steps []step.Step, provider serving.Provider, isServed func(schema.GroupVersionKind) (bool, error)) error {
	for _, gvk := range provider.Kinds() {
		ofKind := func(s step.Step) bool { return s.Object.GroupVersionKind() == gvk }
		i := slices.IndexFunc(steps, ofKind)
		if i < 0 {
			continue
		}
		served, err := isServed(gvk)
		if err != nil {
			return err
		}
		if served {
			continue
		}
		name := steps[i].Object.GetName()
		report.Refuse("certificates of webhooks and APIs", &providerError{provider, &execute.UnservedError{GVK: gvk, Name: name}})
		isOf := func(s step.Step) bool { return slices.Contains(provider.Kinds(), s.Object.GroupVersionKind()) }
		steps = slices.DeleteFunc(slices.Clone(steps), isOf)
		break
	}
	return report.RefuseUnserved(steps, isServed)
}

// providerError reports that the provider of certificates is not installed.
type providerError struct {
	provider serving.Provider
	cause    *execute.UnservedError
}

func (e *providerError) Error() string {
	return fmt.Sprintf("Remit is configured with --webhook-certificates=%s, but the cluster does not serve kind %s of %s: install %s, or change the flag of the extension program",
		&e.provider, e.cause.GVK.Kind, e.cause.GVK.GroupVersion(), &e.provider)
}

func (e *providerError) Unwrap() error { return e.cause }
