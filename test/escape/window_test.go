package escape

import (
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const anyAccount = "remit.dev/any-account"

// windows returns rows about the moment in which the API server's policies do not know an OperatorGroup that was just created.
func windows() []row {
	return []row{
		{number: "317", title: "a CSV that is created at the same time as the OperatorGroup", holds: p0(), play: func(s *scene) {
			author := s.author("clusterserviceversions", "get", "create", "update", "patch")
			create := func(labels map[string]string) error {
				obj := &unstructured.Unstructured{Object: csv().Object}
				obj.SetNamespace(s.Namespace)
				obj.SetLabels(labels)
				return author.Create(s.T.Context(), obj)
			}
			labeled := map[string]string{anyAccount: ""}
			require.ErrorContains(s.T, create(labeled), "every ServiceAccount of namespace "+s.Namespace)
			s.group(s.Namespace)
			for range 20 {
				require.Error(s.T, create(nil))
				require.Error(s.T, create(labeled))
			}
			s.noDeployments()
			s.nothingWritten()
		}},
		{number: "318", title: "an administrator's CSV that is changed at the same time as the OperatorGroup is created", holds: p0(), play: func(s *scene) {
			author := s.author("clusterserviceversions", "get", "create", "update", "patch")
			obj := csv()
			require.NoError(s.T, s.apply(s.mallory(), obj.Object))
			change := func(body string) error {
				theirs := &unstructured.Unstructured{Object: csv().Object}
				theirs.SetNamespace(s.Namespace)
				return author.Patch(s.T.Context(), theirs, client.RawPatch(types.MergePatchType, []byte(body)))
			}
			s.group(s.Namespace)
			for range 20 {
				require.Error(s.T, change(`{"metadata":{"labels":{"remit.dev/any-account":null}}}`))
				require.Error(s.T, change(`{"spec":{"displayName":"evil"}}`))
			}
			require.NotEqual(s.T, "evil", s.csvSays(succeeded).Spec.DisplayName)
		}},
	}
}
