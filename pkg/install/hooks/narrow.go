package hooks

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/install/webhook"
	"github.com/remit-olm/remit/pkg/lib/apply"
	"github.com/remit-olm/remit/pkg/lib/ownerutil"
)

// Configurations returns the webhook configurations of a lineage. "by" selects the objects as in Gather.
func Configurations(ctx context.Context, r client.Reader, owner ownerutil.Owner, by ...client.ListOption) ([]*unstructured.Unstructured, error) {
	live := &Live{by: by}
	if err := live.gatherConfigurations(ctx, r, &Plan{in: Input{Owner: owner}}); err != nil {
		return nil, err
	}
	out := make([]*unstructured.Unstructured, 0, len(live.configurations))
	for _, obj := range live.configurations {
		content, err := Content(obj)
		if err != nil {
			return nil, err
		}
		out = append(out, content)
	}
	return out, nil
}

// Content converts a live webhook configuration or APIService from a typed read, which leaves its kind empty.
func Content(obj client.Object) (*unstructured.Unstructured, error) {
	out, err := apply.Object(obj)
	if err == nil {
		out.SetGroupVersionKind(reference(obj).GroupVersionKind())
	}
	return out, err
}

// Within narrows the planned webhook configurations to what the live ones intercept, and returns the difference. Use it if
// the account may not write the planned ones, so that live ones that were narrowed for this reason count as in place.
func (p *Plan) Within(live *Live) ([]webhook.Cut, error) {
	configurations, err := webhook.Desired(p.webhooks())
	if err != nil {
		return nil, err
	}
	var cuts []webhook.Cut
	for _, c := range configurations {
		more, err := live.narrow(p, hook{Unstructured: c.Unstructured})
		if err != nil {
			return nil, err
		}
		cuts = append(cuts, more...)
	}
	p.within, p.rendered = live, nil
	return cuts, nil
}

// narrow narrows a planned configuration to the corresponding live one, if there is one.
func (l *Live) narrow(p *Plan, h hook) ([]webhook.Cut, error) {
	if l == nil {
		return nil, nil
	}
	have := l.object(h)
	if have == nil {
		return nil, nil
	}
	live, err := Content(have)
	if err != nil {
		return nil, err
	}
	held, err := webhook.Within(live)
	if err != nil {
		return nil, err
	}
	return webhook.Narrow(h.Unstructured, p.in.Scopes, held)
}
