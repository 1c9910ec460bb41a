package escape

import (
	"fmt"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

func tokenSecret(serviceAccount string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: stolen, annotations: {kubernetes.io/service-account.name: %s}},
 type: kubernetes.io/service-account-token}`, serviceAccount)
}

func secretsAndTokens() []row {
	refuses := func(number, title, manifest string, words ...string) row {
		return row{number: number, title: title, holds: p0(), boss: true, play: func(s *scene) {
			s.install(bundleOf(csv(), manifest))
			s.refused(words...)
			s.absent(&corev1.Secret{}, "stolen")
		}}
	}
	return []row{
		refuses("52", "a token Secret for a stronger ServiceAccount", tokenSecret(bossName), "kubernetes.io/service-account-token", "not allowed"),
		refuses("52a", "a token Secret for the account", tokenSecret(accountName), "not allowed"),
		refuses("52b", "a token Secret for the default ServiceAccount", tokenSecret("default"), "not allowed"),
		refuses("52c", "a bootstrap token", `{apiVersion: v1, kind: Secret, metadata: {name: stolen}, type: bootstrap.kubernetes.io/token}`, "not allowed"),
		refuses("52d", "a Secret whose type is not a string", `{apiVersion: v1, kind: Secret, metadata: {name: stolen}, type: [Opaque]}`, "type"),
		{number: "52e", title: "a token Secret for a stronger ServiceAccount that the bundle also contains", holds: p0(), boss: true, play: func(s *scene) {
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: boss}}`, tokenSecret(bossName)))
			s.planSays("ServiceAccount "+s.Namespace+"/"+bossName, collides)
			s.nothingWritten()
			s.absent(&corev1.Secret{}, "stolen")
		}},
		{number: "52f", title: "a token Secret for a new ServiceAccount that a binding has waited for", holds: p0(), play: func(s *scene) {
			s.bossIsLeft()
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: boss}}`, tokenSecret(bossName)))
			s.planSays(`Secret "stolen" may not contain a token of ServiceAccount "`+bossName+`"`, "not newer than the ServiceAccount")
			s.nothingWritten()
			s.absent(&corev1.Secret{}, "stolen")
			require.NoError(s.T, cluster.Client.Delete(s.T.Context(), s.bossBinding()))
			s.Complete()
		}},
		{number: "52g", title: "a token Secret of a ClusterExtension for a new ServiceAccount that a binding has waited for", play: func(s *scene) {
			s.bossIsLeft()
			x := s.extension("own", bundleOf(csv(), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: boss}}`, tokenSecret(bossName)))
			x.install(p0())
			x.refused(`Secret "stolen" may not contain a token of ServiceAccount "` + bossName + `"`)
			s.absent(&corev1.Secret{}, "stolen")
		}},
		{number: "53", title: "a Secret that already exists", holds: p0(), play: func(s *scene) {
			theirs := &corev1.Secret{ObjectMeta: s.Meta("theirs"), StringData: map[string]string{"password": "kept"}}
			s.Create(theirs)
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: Secret, metadata: {name: theirs}, stringData: {password: taken}}`))
			s.planSays("Secret "+s.Namespace+"/theirs", collides)
			s.nothingWritten()
			after := &corev1.Secret{}
			require.NoError(s.T, s.Get("theirs", after))
			require.Equal(s.T, theirs.ResourceVersion, after.ResourceVersion)
		}},
		{number: "53a", title: "a replacement for the ConfigMap with the CA of the API server", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt}, data: {ca.crt: evil}}`))
			s.planSays("ConfigMap "+s.Namespace+"/kube-root-ca.crt", collides)
			s.nothingWritten()
		}},
		{number: "53b", title: "the default ServiceAccount, with an image pull Secret", holds: p0(), play: func(s *scene) {
			s.install(bundleOf(csv(), `{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}, imagePullSecrets: [{name: evil}]}`))
			s.planSays("ServiceAccount "+s.Namespace+"/default", collides)
			s.nothingWritten()
		}},
		{number: "55", title: "an account that is recreated during a plan", holds: p0(), play: func(s *scene) {
			blocker := s.stopped()
			s.dismiss(accountName)
			s.planSays("ServiceAccount " + accountName + " not found")
			blocker.Remove()
			s.halted()
			again := &corev1.ServiceAccount{ObjectMeta: s.Meta(accountName)}
			s.Create(again)
			require.Equal(s.T, again.UID, s.Complete().Status.AttenuatedServiceAccountRef.UID)
			s.GroupSays(groupName, "AccountChanged", metav1.ConditionTrue, "AccountRecreated", string(again.UID))
		}},
		{number: "56", title: "an account that is deleted during a plan", holds: p0(), play: func(s *scene) {
			blocker := s.stopped()
			s.dismiss(accountName)
			s.planSays("ServiceAccount " + accountName + " not found")
			s.GroupSays(groupName, "AccountUsable", metav1.ConditionFalse, string(scoped.AccountMissing), accountName)
			blocker.Remove()
			s.halted()
		}},
		{number: "56a", title: "an enrollment that is removed during a plan", holds: p0(), play: func(s *scene) {
			blocker := s.stopped()
			s.Withdraw()
			s.planSays("not enrolled")
			blocker.Remove()
			s.halted()
			s.Enroll()
			s.Complete()
		}},
	}
}

// dismiss deletes a ServiceAccount. The ServiceAccount's bindings remain and apply to a new ServiceAccount with the
// same name.
func (s *scene) dismiss(name string) {
	s.T.Helper()
	require.NoError(s.T, judge.Remember(s.T.Context(), &s.told))
	sa := &corev1.ServiceAccount{}
	require.NoError(s.T, s.Get(name, sa))
	require.NoError(s.T, cluster.Client.Delete(s.T.Context(), sa, client.Preconditions{UID: &sa.UID}))
}
