package pki

import (
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contextName is the name of the only cluster, user and context in every kubeconfig written here.
const contextName = "remit"

// Cluster is the address of an API server and its CA.
type Cluster struct {
	Server string
	CAPEM  []byte
}

// WriteClientKubeconfig issues a client certificate for the subject and writes a self-contained kubeconfig to file.
func (a *Authority) WriteClientKubeconfig(file string, cluster Cluster, s Subject) error {
	certPEM, keyPEM, err := a.Issue(s)
	if err != nil {
		return err
	}
	user := &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	return writeKubeconfig(file, cluster, user, "")
}

// WriteTokenKubeconfig writes a kubeconfig that rereads its bearer token from tokenFile, so the token can be replaced
// at any time. The namespace is the default namespace of the kubeconfig's context.
func WriteTokenKubeconfig(file string, cluster Cluster, tokenFile, namespace string) error {
	return writeKubeconfig(file, cluster, &clientcmdapi.AuthInfo{TokenFile: tokenFile}, namespace)
}

func writeKubeconfig(file string, cluster Cluster, user *clientcmdapi.AuthInfo, namespace string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{
		Server: cluster.Server, CertificateAuthorityData: cluster.CAPEM,
		DisableCompression: true, // on loopback, compression costs more time than it saves
	}
	config.AuthInfos[contextName] = user
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: contextName, Namespace: namespace}
	config.CurrentContext = contextName
	content, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	// Readers that wait for the file must never see partial content.
	if err := os.WriteFile(file+".tmp", content, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}
