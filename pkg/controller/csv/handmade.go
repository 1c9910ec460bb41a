package csv

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isOnlyChecked reports whether the CSV's ServiceAccounts and their permissions must exist and are not created, as in OLM: a user
// created the CSV, and the default account installs it, which would grant any permission. What its Deployments run as is
// still bounded by the account (docs/adr/0078).
func (s *scope) isOnlyChecked() bool { return s.owner.Direct && s.account.Default }

// withoutChecked returns the objects that are to be written: without those that were rendered from the CSV's permissions,
// if they are only checked.
func (s *scope) withoutChecked(due, rendered []*unstructured.Unstructured) []*unstructured.Unstructured {
	if !s.isOnlyChecked() {
		return due
	}
	return slices.DeleteFunc(due, func(obj *unstructured.Unstructured) bool { return slices.Contains(rendered, obj) })
}
