package scopedcache

import (
	"time"
)

// node is a scope that is claimed, was claimed recently, or has a feed.
type node struct {
	scope Scope
	// owners maps each owner of a claim to the state that was last reported to it.
	owners map[OwnerRef]State
	// lingers is the timer that ends the feed of a scope that is no longer claimed. It is nil if there is no such feed.
	lingers *time.Timer
	// coalesced is true if the scope is watched instead of many single objects in it.
	coalesced bool
	feed      *feed
}

type namespaceNode struct {
	*node
	objects map[string]*node
}

func newNode(scope Scope) *node { return &node{scope: scope, owners: map[OwnerRef]State{}} }

func (n *node) claimed() bool { return len(n.owners) > 0 }
func (n *node) wanted() bool  { return n.claimed() || n.lingers != nil || n.coalesced }
func (n *node) serving() bool { return n.feed != nil && n.feed.serving }
func (n *node) ready() bool   { return n.feed != nil && n.feed.ready }

// settled reports whether there is no reason to wait for the node's feed.
func (n *node) settled() bool {
	return !n.claimed() || n.ready() || n.feed != nil && n.feed.state.refused()
}
