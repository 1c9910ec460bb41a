package condition_test

import (
	"testing"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/remit-olm/remit/pkg/install/condition"
	"github.com/remit-olm/remit/pkg/lib/names"
)

func TestUnreadableConditionsPreventUpgrades(t *testing.T) {
	c := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationUndecodable: "why"}}}
	require.Contains(t, condition.HeldBack(c), "a part of the object cannot be decoded")
	c.Spec.Overrides = []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue}}
	require.Empty(t, condition.HeldBack(c), "an administrator can decide")
}
