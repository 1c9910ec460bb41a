package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	"github.com/remit-olm/remit/pkg/packages"
	"github.com/remit-olm/remit/pkg/packages/store"
)

const (
	// maxListBytes bounds the cost (store.Entry) of the list for a request without a limit. A client that receives the error can request the list in
	// chunks.
	maxListBytes = 64 << 20
	// maxPageBytes bounds the cost of a chunk of a list, which may therefore contain fewer items than the requested
	// limit. One user can have one such chunk at a time.
	maxPageBytes = maxReadingUser
)

// paged is a list, or a chunk of one.
type paged struct {
	entries []*store.Entry
	size    int64
	meta    metav1.ListMeta
}

// cost implements sized.
func (p paged) cost() int64 { return p.size }

// position is the place at which a list continues.
type position struct {
	Version uint64               `json:"v"`
	Name    string               `json:"n"`
	Catalog types.NamespacedName `json:"c"`
	// Priority is the priority of the catalog, which is part of the order.
	Priority int `json:"p,omitempty"`
}

// page returns the chunk of a list that the options request.
func page(o *metainternalversion.ListOptions, s selection, all []*store.Entry, now uint64) (paged, error) {
	out := paged{meta: metav1.ListMeta{ResourceVersion: version(now)}}
	if o == nil {
		o = &metainternalversion.ListOptions{}
	}
	if err := checkVersion(o, now); err != nil {
		return out, err
	}
	if o.Continue != "" {
		from, err := parsePosition(o.Continue)
		if err != nil {
			return out, err
		}
		if from.Version != now {
			return out, apierrors.NewResourceExpired("the catalogs have changed since the list began: list again without the continue token")
		}
		all = after(s, from, all)
	}
	for i, e := range all {
		if o.Limit > 0 && (int64(i) == o.Limit || i > 0 && out.size+e.Cost > maxPageBytes) {
			last, left := all[i-1], int64(len(all)-i)
			out.meta.Continue = position{Version: now, Name: last.Name, Catalog: last.Catalog(), Priority: last.Source.Priority}.String()
			out.meta.RemainingItemCount = &left
			break
		}
		out.entries, out.size = append(out.entries, e), out.size+e.Cost
	}
	if out.size > maxListBytes {
		return out, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the list needs %d MiB of memory, but at most %d MiB are allowed: use limit and continue to request it in chunks", out.size>>20, maxListBytes>>20))
	}
	return out, nil
}

// checkVersion returns an error if the list cannot have the requested resource version.
func checkVersion(o *metainternalversion.ListOptions, now uint64) error {
	want, err := parseVersion(o.ResourceVersion)
	switch {
	case err != nil:
		return err
	case want > now:
		return storage.NewTooLargeResourceVersionError(want, now, 1)
	case o.ResourceVersionMatch == metav1.ResourceVersionMatchExact && want != now:
		return apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is too old: the current one is %d", want, now))
	}
	return nil
}

// String returns the continue token.
func (p position) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // encoding strings and numbers does not fail
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePosition(token string) (p position, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, apierrors.NewBadRequest("invalid continue token")
	}
	return p, nil
}

// after returns the entries after a position.
func after(s selection, p position, all []*store.Entry) []*store.Entry {
	last := &store.Entry{Name: p.Name, Source: &packages.Source{Namespace: p.Catalog.Namespace, Name: p.Catalog.Name, Priority: p.Priority}}
	for i, e := range all {
		if store.Compare(s.Namespace, e, last) > 0 {
			return all[i:]
		}
	}
	return nil
}
