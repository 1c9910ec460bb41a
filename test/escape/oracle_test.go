package escape

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/pkg/lib/scoped"
	"github.com/remit-olm/remit/test/escape/oracle"
)

// With an oracle that detects nothing, every row would pass, so this test violates each invariant deliberately.
func TestTheOracleDetectsEveryViolation(t *testing.T) {
	if *shard > 1 {
		t.Skip("shard 1 runs this test")
	}
	if isSample() {
		t.Skip("not part of the sample: make test-rest runs this test")
	}
	for _, c := range []struct {
		invariant, breach string
		words             []string
		do                func(s *scene)
	}{
		{"I1", "a ServiceAccount that has more permissions than the account", []string{"I1", "ServiceAccount", "stronger", "in \"\""}, func(s *scene) {
			s.account("stronger", profile{cluster: []rbacv1.PolicyRule{rule("", "secrets", "list")}})
		}},
		{"I1", "a binding that grants another subject more permissions than the account has", []string{"I1", "rolebindings", "pods/exec"}, func(s *scene) {
			boss := s.bearing(s.Namespace, bossName)
			require.NoError(s.T, boss.Create(s.T.Context(), &rbacv1.Role{ObjectMeta: s.Meta("gift"), Rules: []rbacv1.PolicyRule{rule("", "pods/exec", "create")}}))
			require.NoError(s.T, boss.Create(s.T.Context(), &rbacv1.RoleBinding{ObjectMeta: s.Meta("gift"),
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gift"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "anybody"}}}))
		}},
		{"I2", "a write as a controller identity", []string{"I2", "configmaps"}, func(s *scene) {
			self := s.bearing(names.DefaultNamespace, names.ServiceAccountCatalog)
			require.Error(s.T, self.Create(s.T.Context(), &corev1.ConfigMap{ObjectMeta: s.Meta("by-self")}))
		}},
		{"I2", "a dry run as a controller identity", []string{"I2", "dryRun=All"}, func(s *scene) {
			self := s.bearing(names.DefaultNamespace, names.ServiceAccountCatalog)
			require.Error(s.T, self.Create(s.T.Context(), &corev1.ConfigMap{ObjectMeta: s.Meta("by-self")}, client.DryRunAll))
		}},
		{"I2", "a token for a ServiceAccount in another namespace", []string{"I2", neighbor, "serviceaccounts/victim/token"}, tokenOfANeighbor},
		{"I2", "a request as the user of a ClusterExtension that is not the scene's", []string{"I2", "selfsubjectreviews"}, func(s *scene) {
			x := s.extensionNamed("unknown")
			s.told.Extensions = nil
			c := s.actingAs(x)
			s.Eventually(func(t *assert.CollectT) {
				assert.NoError(t, c.Create(s.T.Context(), &authenticationv1.SelfSubjectReview{}))
			})
		}},
		{"I3", "a change, as the user of a ClusterExtension, of an object that the test created", []string{"I3", "configmaps " + neighbor + "/shared-too was created"}, func(s *scene) {
			cm := &corev1.ConfigMap{}
			cm.Namespace, cm.Name = neighbor, "shared-too"
			s.createOutside(cm)
			x := s.extensionNamed("known")
			c := s.actingAs(x)
			x.grant(allPowerful())
			s.Eventually(func(t *assert.CollectT) {
				assert.NoError(t, c.Patch(s.T.Context(), cm.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"by":"an extension"}}`))))
			})
		}},
		{"I2", "a patch of a CSV that changes more than finalizers", []string{"I2", "clusterserviceversions/any"}, func(s *scene) {
			self := s.bearing(names.DefaultNamespace, names.ServiceAccountOLM)
			require.Error(s.T, self.Patch(s.T.Context(), &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: s.Meta("any")},
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`))))
		}},
		{"I3", "a change in the neighbor's namespace", []string{"I3", neighbor, "was created"}, func(s *scene) {
			cm := &corev1.ConfigMap{}
			cm.Namespace, cm.Name = neighbor, "intruder"
			require.NoError(s.T, s.bearing(s.Namespace, bossName).Create(s.T.Context(), cm))
			s.T.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), cm) })
		}},
		{"I3", "a change to an object that the test created", []string{"I3", "configmaps " + neighbor + "/shared was created"}, func(s *scene) {
			cm := &corev1.ConfigMap{}
			cm.Namespace, cm.Name = neighbor, "shared"
			s.createOutside(cm.DeepCopy())
			cm.Data = map[string]string{"by": "an intruder"}
			require.NoError(s.T, s.bearing(s.Namespace, bossName).Update(s.T.Context(), cm))
		}},
		{"I3", "a change in the namespace of another row", []string{"I3 (nothing outside changes)", "/intruder was created"}, func(s *scene) {
			other := newScene(s.T, row{number: "another", holds: p0()})
			require.NoError(s.T, judge.Check(s.T.Context(), &other.told))
			cm := &corev1.ConfigMap{ObjectMeta: other.Meta("intruder")}
			require.NoError(s.T, s.bearing(s.Namespace, bossName).Create(s.T.Context(), cm))
			s.T.Cleanup(other.leave)
		}},
		{"I4", "a token in a log", []string{"I4", "the log", "serviceaccount:"}, func(s *scene) {
			dir := filepath.Join(cluster.Dir, "pods", s.Namespace+"_any_1")
			require.NoError(s.T, os.MkdirAll(dir, 0o700))
			s.T.Cleanup(func() { _ = os.RemoveAll(dir) })
			require.NoError(s.T, os.WriteFile(filepath.Join(dir, "any.log"), []byte(`level=debug token="`+s.token(s.Namespace, accountName)+`"`), 0o600))
		}},
		{"I5", "an account that sends too many requests", []string{"I5", accountName + " sent", "requests"}, manyRequests},
		{"I7", "a Pod that the account runs as a stronger ServiceAccount", []string{"I7", "pods", "runs as", bossName}, func(s *scene) {
			require.NoError(s.T, s.bearing(s.Namespace, accountName).Create(s.T.Context(),
				&corev1.Pod{ObjectMeta: s.Meta("usurper"), Spec: podAs(bossName)}))
		}},
		{"I7", "a deleted Deployment that ran as a stronger ServiceAccount", []string{"I7", "deployments", "usurper", bossName}, func(s *scene) {
			labels := map[string]string{"app": "usurper"}
			d := &appsv1.Deployment{ObjectMeta: s.Meta("usurper"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podAs(bossName)}}}
			acct := s.bearing(s.Namespace, accountName)
			require.NoError(s.T, acct.Create(s.T.Context(), d))
			require.NoError(s.T, acct.Delete(s.T.Context(), d))
		}},
		{"I4", "a token in a ConfigMap", []string{"I4", "configmaps", "serviceaccount:"}, func(s *scene) {
			s.createOutside(&corev1.ConfigMap{ObjectMeta: s.Meta("leak"), Data: map[string]string{"log": "Bearer " + s.token(s.Namespace, accountName)}})
		}},
		{"I4", "the beginning of a token in a Secret", []string{"I4", "Secret", "contains"}, func(s *scene) {
			s.createOutside(&corev1.Secret{ObjectMeta: s.Meta("leak"), StringData: map[string]string{"note": s.token(s.Namespace, accountName)[:200]}})
		}},
		{"I4", "private content of a neighbor", []string{"I4", "configmaps", neighbor}, func(s *scene) {
			s.createOutside(&corev1.ConfigMap{ObjectMeta: s.Meta("leak"), Data: map[string]string{"found": secretValue}})
		}},
	} {
		t.Run(c.invariant+" "+c.breach, func(t *testing.T) {
			s := newScene(t, row{number: "oracle", holds: p0(), boss: true})
			c.do(s)
			err := judge.Check(t.Context(), &s.told)
			for _, w := range c.words {
				require.ErrorContains(t, err, w)
			}
			s.leave()
		})
	}
}

func podAs(serviceAccount string) corev1.PodSpec {
	return corev1.PodSpec{ServiceAccountName: serviceAccount, Containers: []corev1.Container{{Name: "any", Image: "escape.test/operator:v1"}}}
}

// actingAs returns a client for the user of a ClusterExtension with the credentials of remit-extension, which the oracle
// attributes to the program.
func (s *scene) actingAs(x *extension) client.Client {
	s.T.Helper()
	x.enroll()
	return s.impersonator("", rest.ImpersonationConfig{UserName: x.User().Username(), Groups: x.User().Groups()[:1]})
}

// tokenOfANeighbor makes Remit request a token for an enrolled ServiceAccount that is not the account of any row.
func tokenOfANeighbor(s *scene) {
	victim := types.NamespacedName{Namespace: neighbor, Name: "victim"}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: victim.Name}}
	s.createOutside(sa)
	for _, obj := range scoped.Enrollment(victim, names.DefaultNamespace) {
		s.createOutside(obj)
	}
	self := s.bearing(names.DefaultNamespace, names.ServiceAccountCatalog)
	s.Eventually(func(c *assert.CollectT) {
		assert.NoError(c, self.SubResource("token").Create(s.T.Context(), sa, &authenticationv1.TokenRequest{}))
	})
}

// manyRequests sends, as the account, more requests than the oracle allows for one identity.
func manyRequests(s *scene) {
	acct := s.bearing(s.Namespace, accountName)
	var group errgroup.Group
	group.SetLimit(8)
	for range oracle.MaxRequests + 1 {
		group.Go(func() error {
			return acct.Get(s.T.Context(), client.ObjectKey{Namespace: s.Namespace, Name: accountName}, &corev1.ServiceAccount{})
		})
	}
	require.NoError(s.T, group.Wait())
}

// token returns a token for a ServiceAccount.
func (s *scene) token(namespace, name string) string {
	s.T.Helper()
	sa := &corev1.ServiceAccount{}
	sa.Namespace, sa.Name = namespace, name
	request := &authenticationv1.TokenRequest{}
	require.NoError(s.T, cluster.Client.SubResource("token").Create(s.T.Context(), sa, request))
	return request.Status.Token
}

// bearing returns a client that authenticates with a ServiceAccount's token, as a program in a Pod does.
func (s *scene) bearing(namespace, name string) client.WithWatch {
	s.T.Helper()
	return s.bearingAs("", namespace, name)
}

// bearingAs is like bearing, but the client has the given user agent.
func (s *scene) bearingAs(agent, namespace, name string) client.WithWatch {
	s.T.Helper()
	config := rest.AnonymousClientConfig(cluster.Config())
	config.UserAgent = agent
	config.BearerToken = s.token(namespace, name)
	c, err := client.NewWithWatch(config, client.Options{Scheme: cluster.Client.Scheme(), Mapper: cluster.Client.RESTMapper()})
	require.NoError(s.T, err)
	return c
}
