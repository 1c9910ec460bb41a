package oracle

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/remit-olm/remit/test/env/audit"
)

// administrator is the user that the tests run as, even when they impersonate others.
const administrator = "remit-admin"

// accountPrefix is the prefix of the user names of ServiceAccounts.
const accountPrefix = "system:serviceaccount:"

// extensionPrefix is the prefix of the user names of ClusterExtensions without a ServiceAccount.
const extensionPrefix = "olm:clusterextension:"

// ledger records which users wrote which objects since the last snapshot began, according to the audit log.
type ledger struct {
	self   audit.Identities
	writes map[Key][]audit.Event
	// requests contains the requests that no check has seen before.
	requests []audit.Event
}

// newLedger returns the ledger of a check. late contains requests that the last check has already seen, but whose effects may be
// missing from its snapshot.
func newLedger(self audit.Identities, late, requests []audit.Event) *ledger {
	l := &ledger{self: self, writes: map[Key][]audit.Event{}, requests: requests}
	for _, e := range slices.Concat(late, requests) {
		if e.Wrote() && e.Object != nil {
			key := keyOf(e.Object)
			l.writes[key] = append(l.writes[key], e)
		}
	}
	return l
}

func keyOf(o *audit.Object) Key {
	key := Key{schema.GroupResource{Group: o.APIGroup, Resource: o.Resource}, o.Namespace, o.Name}
	if o.APIGroup == "" && o.Resource == "namespaces" { // in the audit log, the namespace of a Namespace is its own name
		key.Namespace = ""
	}
	return key
}

// isComponent reports whether a user is a component of the control plane, whose writes are consequences of other users'
// writes.
func isComponent(user string) bool {
	switch user {
	case "system:apiserver", "system:kube-controller-manager", "system:kube-scheduler", "system:remit-node":
		return true
	}
	return strings.HasPrefix(user, accountPrefix+"kube-system:")
}

// byController reports whether a controller identity sent a request with its own permissions, rather than as a synthetic user.
func (l *ledger) byController(e audit.Event) bool { return l.self.Is(e) && e.Impersonated == nil }

// byTest reports whether the test itself made a change, and no other user wrote the object. It ignores writes by the
// control plane and by the controller identities, which I2 checks.
func (l *ledger) byTest(c Change) bool {
	found := false
	for _, e := range l.writes[c.Key] {
		switch {
		case e.User.Username == administrator:
			found = found || explains(e, c.How)
		case isComponent(e.User.Username), l.byController(e):
		default:
			return false
		}
	}
	return found
}

// explains reports whether a request could have caused the change.
func explains(e audit.Event, how string) bool {
	switch how {
	case created, replaced:
		return e.Created() && e.Object.Subresource == ""
	case removed:
		return e.Verb == "delete"
	default:
		return e.Object.Subresource != "token"
	}
}

// onlyByControllers reports whether only controller identities and the control plane wrote an object, and with their own
// permissions.
func (l *ledger) onlyByControllers(key Key) bool {
	return !slices.ContainsFunc(l.writes[key], func(e audit.Event) bool { return !isComponent(e.User.Username) && !l.byController(e) })
}

// fromHome reports whether an object was written only by the identities of the scene home, the test, the control plane and
// Remit.
func (l *ledger) fromHome(key Key, homeOfUser func(user string) string, home string) bool {
	for _, e := range l.writes[key] {
		if e.User.Username == administrator || isComponent(e.User.Username) || l.byController(e) {
			continue
		}
		if homeOfUser(e.Actor()) != home {
			return false
		}
	}
	return true
}
