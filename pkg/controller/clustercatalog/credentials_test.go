package clustercatalog

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	olmv1 "github.com/remit-olm/remit/api/v1"
	"github.com/remit-olm/remit/pkg/controller/kit"
	"github.com/remit-olm/remit/pkg/image"
	"github.com/remit-olm/remit/test/env/registry"
)

// requireLogin makes the registry require a user and a password.
func requireLogin(s *registry.Server, user, password string) {
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
}

// The images of catalogs and bundles are read with the Keychain. Credentials that are added later are used by the next attempt.
func TestReadsImagesWithCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	w := givenWith(t, func(o *Options) { o.Keychain = image.Files{file} })
	w.startBundles()
	ref, digest := w.pushWithBundle()
	requireLogin(w.registry, "remit", "the password")
	got := w.create("one", ref)
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "401")
	requireCondition(t, got, olmv1.TypeServing, metav1.ConditionFalse, olmv1.ReasonUnavailable, "no content")

	write := func(password string) {
		t.Helper()
		auth := base64.StdEncoding.EncodeToString([]byte("remit:" + password))
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, w.registry.Host, auth), 0o600))
	}
	require.NoError(t, os.WriteFile(file, []byte(`{"auths": "the password"}`), 0o600))
	w.pass(kit.FirstPause * 2)
	got = w.afterCheck("one")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying,
		fmt.Sprintf("some credentials were not used: credentials file %q is not a Docker configuration in JSON", file))
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(text), "the password")

	write("a wrong password")
	w.pass(kit.FirstPause * 4)
	got = w.afterCheck("one")
	requireCondition(t, got, olmv1.TypeProgressing, metav1.ConditionTrue, olmv1.ReasonRetrying, "401")
	text, err = json.Marshal(got)
	require.NoError(t, err)
	require.NotContains(t, string(text), "a wrong password")
	require.NotContains(t, string(text), base64.StdEncoding.EncodeToString([]byte("remit:a wrong password")))

	write("the password")
	w.pass(kit.FirstPause * 8)
	requireServed(t, w.afterCheck("one"), digest)
	w.readBundle("one")
}
