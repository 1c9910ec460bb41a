package catalogsource

import (
	"github.com/remit-olm/remit/pkg/lib/journal"
	"github.com/remit-olm/remit/pkg/lib/turns"
)

// slow is the error for a registry or catalog that takes too long.
type slow string

func (s slow) Error() string { return string(s) }

// Timeout reports that another attempt may succeed, as errors of package net do.
func (slow) Timeout() bool { return true }

const errYieldTimeout = slow("the catalog is slow, and catalogs of other namespaces are waiting")

// lanes contains separate turns for tenants and for the global catalog namespace, so that neither waits for the other.
type lanes struct {
	// reserved is the global catalog namespace.
	reserved        string
	global, tenants *turns.Turns
}

// record makes the journal record under a name which tenant's turn it is. It must be called before the lanes are used. Administrators
// choose what is in the global catalog namespace, and it is read at each start: at the end of the program, it would always be suspect.
func (l *lanes) record(j *journal.Journal, name string) { l.tenants.Journal, l.tenants.Name = j, name }

func (l *lanes) turnsOf(namespace string) *turns.Turns {
	if namespace == l.reserved {
		return l.global
	}
	return l.tenants
}
