package env

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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// Program runs one of Remit's programs as a child process of the test, so that the test can kill and restart it. The process
// connects to the API server as its own ServiceAccount.
type Program struct {
	// Account is the name of the ServiceAccount, and Token is its token.
	Account, Token string

	t    testing.TB
	path string
	args []string
	log  *os.File

	cmd  *exec.Cmd
	done chan struct{}
}

// Program returns the program that runs as this ServiceAccount, whose name is the program's name with a prefix. The program is
// not started yet. It is killed when the test ends; if the test failed, the end of its log is printed.
func (c *Cluster) Program(t testing.TB, server *rest.Config, account string, args ...string) *Program {
	t.Helper()
	name := strings.TrimPrefix(account, "remit-")
	p := &Program{Account: account, Token: c.token(t, account), t: t, path: filepath.Join(c.Bin, name)}
	p.args = append([]string{"--kubeconfig=" + p.kubeconfig(server), "--namespace=" + c.Home}, args...)
	var err error
	p.log, err = os.Create(filepath.Join(t.TempDir(), name+".log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			content, _ := os.ReadFile(p.log.Name())
			t.Logf("end of the log of %s: ...%s", name, content[max(0, len(content)-8192):])
		}
		_ = p.log.Close()
	})
	return p
}

func (p *Program) kubeconfig(server *rest.Config) string {
	p.t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["server"] = &clientcmdapi.Cluster{Server: server.Host,
		CertificateAuthority: server.CAFile, CertificateAuthorityData: server.CAData}
	config.AuthInfos["self"] = &clientcmdapi.AuthInfo{Token: p.Token}
	config.Contexts["self"] = &clientcmdapi.Context{Cluster: "server", AuthInfo: "self"}
	config.CurrentContext = "self"
	file := filepath.Join(p.t.TempDir(), "kubeconfig")
	require.NoError(p.t, clientcmd.WriteToFile(*config, file))
	return file
}

func (c *Cluster) token(t testing.TB, account string) string {
	t.Helper()
	self := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.Home, Name: account}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	require.NoError(t, c.Client.SubResource("token").Create(t.Context(), self, request))
	return request.Status.Token
}

// Start starts the process. A process that Start started earlier must have exited.
func (p *Program) Start() error {
	cmd, done := exec.Command(p.path, p.args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	p.cmd, p.done = cmd, done
	return nil
}

// Exited reports whether the process has exited. Start must have been called before.
func (p *Program) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills the process with SIGKILL and returns when it has exited. It has no effect if the process has exited or was not
// started.
func (p *Program) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
