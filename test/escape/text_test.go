package escape

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newReplacer(pairs ...string) *strings.Replacer { return strings.NewReplacer(pairs...) }

// statusText returns an object as JSON.
func statusText(c assert.TestingT, obj any) string {
	text, err := json.Marshal(obj)
	assert.NoError(c, err)
	return string(text)
}

func selector(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}
