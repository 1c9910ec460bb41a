package excess

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Examined is what the API server says about objects that exceed an account according to a cache.
type Examined struct {
	// Live are the objects that exist.
	Live []client.Object
	// Found are those of them that exceed the account, and Confirmed those for which the API server confirms it.
	Found, Confirmed []Object
	// IsOutdated is true if one of the objects that were read does not exist, or does not exceed the account any more.
	IsOutdated bool
	// IsComplete is false if some objects were not examined because there are too many, or they are too large, or have too many permissions.
	// Other attempts examine others.
	IsComplete bool
}

// Examine examines at most 100 of the objects that were found in a cache. Everything that their removal depends on is read again: the
// objects from the API server, which also confirms that it denies the accounts the permissions. rulesOf of the Bounds should be LiveRules.
func (b Bounds) Examine(ctx context.Context, live client.Reader, owns func(client.Object) bool, ask Reviewer, found []Object) (out Examined, err error) {
	batch := b.accounts[0].Batch(found)
	var read int
	if out.Live, read, err = Reread(ctx, live, owns, batch); err != nil {
		return out, err
	}
	if out.Found, err = b.Find(out.Live); err != nil {
		return out, err
	}
	var isDecided bool
	out.Confirmed, isDecided, err = b.Confirm(ctx, ask, out.Found)
	out.IsOutdated = len(out.Found) < read
	out.IsComplete = isDecided && read == len(found)
	return out, err
}

// Kept says why the objects are kept that were not confirmed. holder is what the account is called.
func (e Examined) Kept(holder string) string {
	if !e.IsComplete {
		return "they are kept until Remit has examined all of them"
	}
	return kept(holder)
}
