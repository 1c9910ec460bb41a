package clusterextension

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// FileEnrollment is the file of a report that contains the enrollment.
const FileEnrollment = "enrollment.yaml"

// notEnrolled describes how to enroll the identity.
func (s *run) notEnrolled() string {
	if s.identity.IsSynthetic() {
		return fmt.Sprintf("%s is not enrolled: Remit is not allowed to impersonate it. To enroll it, run \"kubectl remit enroll clusterextension %s\" or apply:\n%s",
			s.identity, s.identity.Extension, s.enrollment())
	}
	return fmt.Sprintf("%s is not enrolled: Remit is not allowed to request a token for it. To enroll it, apply:\n%s", s.identity, s.enrollment())
}

// enrollment returns the RBAC that allows this program to act as the identity, as YAML.
func (s *run) enrollment() string {
	var objs []client.Object
	if s.identity.IsSynthetic() {
		version, err := s.ServerVersion()
		how := scoped.ImpersonationLegacy
		if err == nil {
			how = scoped.ImpersonationFor(version)
		}
		objs = scoped.ExtensionEnrollment(s.identity, s.Namespace, how)
	} else {
		objs = scoped.ExtensionAccountEnrollment(s.identity.Account.Key(), s.Namespace)
	}
	var out strings.Builder
	for _, obj := range objs {
		text, err := yaml.Marshal(obj)
		if err != nil {
			return "" // cannot happen: these objects contain only strings
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.String()
}
