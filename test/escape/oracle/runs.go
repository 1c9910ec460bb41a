package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/remit-olm/remit/test/env/audit"
)

// running lists the resources whose objects are Pods or create Pods.
var running = []schema.GroupResource{
	{Resource: "pods"}, {Resource: "replicationcontrollers"},
	{Group: "apps", Resource: "daemonsets"}, {Group: "apps", Resource: "deployments"},
	{Group: "apps", Resource: "replicasets"}, {Group: "apps", Resource: "statefulsets"},
	{Group: "batch", Resource: "cronjobs"}, {Group: "batch", Resource: "jobs"},
}

// podSpec contains the fields of a Pod that determine which ServiceAccount it runs as.
type podSpec struct {
	ServiceAccountName string `json:"serviceAccountName"`
	ServiceAccount     string `json:"serviceAccount"`
}

type template struct {
	Spec podSpec `json:"spec"`
}

// workload is a Pod or an object that creates Pods.
type workload struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		Generation      int64  `json:"generation"`
		OwnerReferences []struct {
			UID        string `json:"uid"`
			Controller bool   `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		podSpec
		Template    *template `json:"template"`
		JobTemplate *struct {
			Spec struct {
				Template template `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// runsAs returns the ServiceAccount that the workload's Pods run as.
func (w *workload) runsAs() types.NamespacedName {
	spec := w.Spec.podSpec
	switch {
	case w.Spec.JobTemplate != nil:
		spec = w.Spec.JobTemplate.Spec.Template.Spec
	case w.Spec.Template != nil:
		spec = w.Spec.Template.Spec
	}
	out := types.NamespacedName{Namespace: w.Metadata.Namespace, Name: spec.ServiceAccountName}
	if out.Name == "" {
		out.Name = spec.ServiceAccount
	}
	if out.Name == "" {
		out.Name = "default"
	}
	return out
}

// placed is a workload with its key.
type placed struct {
	key Key
	workload
}

// workloads returns the workloads of a Snapshot, by UID.
func workloads(s *Snapshot) (map[string]placed, error) {
	out := map[string]placed{}
	for _, resource := range running {
		list, err := items[workload](s, resource)
		if err != nil {
			return nil, err
		}
		for i := range list {
			out[list[i].Metadata.UID] = placed{Key{resource, list[i].Metadata.Namespace, list[i].Metadata.Name}, list[i]}
		}
	}
	return out, nil
}

// root follows a workload's controlling owners and returns the topmost one, for example the Deployment of a Pod.
func (p placed) root(now, then map[string]placed) placed {
	for range len(running) {
		parent := ""
		for _, r := range p.Metadata.OwnerReferences {
			if r.Controller {
				parent = r.UID
			}
		}
		next, ok := now[parent]
		if !ok {
			next, ok = then[parent]
		}
		if !ok {
			return p
		}
		p = next
	}
	return p
}

// checkRuns returns the violations of I7. It ignores unchanged objects and those that the test created. It also checks
// workloads that a ServiceAccount wrote and that no longer exist, which it reads from the audit log.
func (b *bound) checkRuns(ctx context.Context, w *rbacWorld, before, after *Snapshot, log *ledger) ([]string, error) {
	then, err := workloads(before)
	if err != nil {
		return nil, err
	}
	now, err := workloads(after)
	if err != nil {
		return nil, err
	}
	who := map[types.NamespacedName]string{}
	for _, p := range now {
		root := p.root(now, then)
		old, known := then[root.Metadata.UID]
		if known && old.Metadata.Generation == root.Metadata.Generation ||
			log.byTest(Change{Key: root.key, How: created}) || log.byTest(Change{Key: root.key, How: changed}) {
			continue
		}
		who[p.runsAs()] = p.key.String()
	}
	if err := log.ran(who); err != nil {
		return nil, err
	}
	var claims []claim
	for sa, what := range who {
		if sa.Namespace == pulseNamespace {
			continue // only the account of the healthy installs writes there (I3)
		}
		more, err := b.claims(ctx, w, sa, fmt.Sprintf("%s runs as ServiceAccount %s, which has permissions that the account does not have", what, sa))
		if err != nil {
			return nil, err
		}
		claims = append(claims, more...)
	}
	return b.judge(ctx, claims)
}

// ran adds ServiceAccounts to the map who: those of all workloads that a ServiceAccount of a tenant or of Remit wrote.
func (l *ledger) ran(who map[types.NamespacedName]string) error {
	for _, e := range l.requests {
		if !e.Wrote() || e.Object == nil || len(e.Returned) == 0 || !byAccount(e) {
			continue
		}
		key := keyOf(e.Object)
		if !slices.Contains(running, key.GroupResource) {
			continue
		}
		var w workload
		if err := json.Unmarshal(e.Returned, &w); err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		who[w.runsAs()] = key.String() + ", which " + e.Actor() + " wrote,"
	}
	return nil
}

// byAccount reports whether a request was sent by a ServiceAccount of a tenant or of Remit, not of the control plane.
func byAccount(e audit.Event) bool {
	return strings.HasPrefix(e.User.Username, accountPrefix) && !isComponent(e.User.Username)
}
