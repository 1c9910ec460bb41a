package kill

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/remit-olm/remit/pkg/lib/names"
	"github.com/remit-olm/remit/test/env"
)

// program runs one of Remit's programs as a child process of the test. The process connects to the API server through the
// gate, as its own ServiceAccount.
type program struct {
	t     *testing.T
	path  string
	args  []string
	token string
	log   *os.File

	cmd  *exec.Cmd
	done chan struct{}
}

// newProgram returns the program that runs as this ServiceAccount, whose name is the program's name with a prefix.
func newProgram(t *testing.T, cluster *env.Cluster, g *gate, account string, args ...string) *program {
	t.Helper()
	name := strings.TrimPrefix(account, "remit-")
	p := &program{t: t, path: filepath.Join(cluster.Bin, name), token: token(t, cluster, account)}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters["gate"] = &clientcmdapi.Cluster{Server: g.URL, CertificateAuthorityData: g.ca()}
	config.AuthInfos["self"] = &clientcmdapi.AuthInfo{Token: p.token}
	config.Contexts["self"] = &clientcmdapi.Context{Cluster: "gate", AuthInfo: "self"}
	config.CurrentContext = "self"
	require.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	p.args = append([]string{"--kubeconfig=" + kubeconfig, "--namespace=" + names.DefaultNamespace}, args...)
	var err error
	p.log, err = os.Create(filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			content, _ := os.ReadFile(p.log.Name())
			t.Logf("end of the program's log: ...%s", content[max(0, len(content)-8192):])
		}
		_ = p.log.Close()
	})
	return p
}

func token(t *testing.T, cluster *env.Cluster, account string) string {
	t.Helper()
	self := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: names.DefaultNamespace, Name: account}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	require.NoError(t, cluster.Client.SubResource("token").Create(t.Context(), self, request))
	return request.Status.Token
}

func (p *program) start() {
	p.t.Helper()
	p.cmd, p.done = exec.Command(p.path, p.args...), make(chan struct{})
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	require.NoError(p.t, p.cmd.Start())
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

// kill kills the process and returns when it has exited. A second kill has no effect.
func (p *program) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
