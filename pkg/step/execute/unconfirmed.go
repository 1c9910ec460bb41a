package execute

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxUnconfirmed bounds the number of Roles that a program remembers as unconfirmed. A Role is rarely one: the API server must refuse
// to remove its rules, or fail while it creates the Role.
const maxUnconfirmed = 10_000

// pending contains the Roles whose bindings were not confirmed, and that may have their rules.
var pending unconfirmed

// unconfirmed contains Roles, and their UIDs; the UID of a Role whose creation had no result is "". It is safe for concurrent use.
type unconfirmed struct {
	mu    sync.Mutex
	roles map[types.NamespacedName]types.UID
}

// remember adds a Role. live is nil if it is not known whether the Role exists.
func (u *unconfirmed) remember(role, live *unstructured.Unstructured) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.roles == nil {
		u.roles = map[types.NamespacedName]types.UID{}
	}
	for key := range u.roles {
		if len(u.roles) < maxUnconfirmed {
			break
		}
		delete(u.roles, key) // the log names it
	}
	uid := types.UID("")
	if live != nil {
		uid = live.GetUID()
	}
	u.roles[client.ObjectKeyFromObject(role)] = uid
}

func (u *unconfirmed) forget(role *unstructured.Unstructured) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.roles, client.ObjectKeyFromObject(role))
}

func (u *unconfirmed) has(live client.Object) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	uid, known := u.roles[client.ObjectKeyFromObject(live)]
	return known && (uid == "" || uid == live.GetUID())
}

// IsUnconfirmed reports whether an object is a Role whose bindings were not confirmed after its rules were written: it must be written
// again, although its rules may be in place, because this checks its bindings. Restarts of the program forget this.
func IsUnconfirmed(live client.Object, kind string) bool { return kind == "Role" && pending.has(live) }

// Withdrawn records that the rules of a Role were removed.
func Withdrawn(role *unstructured.Unstructured) { pending.forget(role) }
