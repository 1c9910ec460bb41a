package clusterextension_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
)

func TestAuthorizedWarnsAboutEscalation(t *testing.T) {
	t.Parallel()
	w := given(t)
	w.grantAll()
	w.publish("1.0.0", "", strings.Replace(csv, "rules: [{apiGroups: [NAME.example.com]", "rules: [{apiGroups: [''], resources: [users], verbs: [impersonate]}, {apiGroups: [NAME.example.com]", 1), crd, configMap)
	w.install()
	w.awaitInstalled("1.0.0")
	message := w.await(olmv1.TypeAuthorized, metav1.ConditionTrue, olmv1.ReasonSucceeded)
	require.Contains(t, message, "Warning: the install grants permissions with which an operator can obtain more permissions than User olm:clusterextension:"+w.name+` has: "impersonate" on users`)
}
