package clusterextension

import (
	"fmt"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/scoped"
)

// FileEnrollment is the file of a report that contains the enrollment.
const FileEnrollment = "enrollment.yaml"

// notEnrolled returns an error that describes how to enroll the identity.
func (s *run) notEnrolled() *scoped.Error {
	how := fmt.Sprintf("%s is not enrolled: Remit is not allowed to request a token for it. To enroll it, run \"kubectl remit enroll %s -n %s --for=clusterextensions\"",
		s.identity, s.identity.Account.Name, s.identity.Account.Namespace)
	if s.identity.IsSynthetic() {
		how = fmt.Sprintf("%s is not enrolled: Remit is not allowed to impersonate it. To enroll it, run \"kubectl remit enroll clusterextension %s\"",
			s.identity, s.identity.Extension)
	}
	return &scoped.Error{Reason: scoped.AccountNotEnrolled, Message: how, Help: s.enrollment()}
}

// enrollment returns the RBAC that allows this program to act as the identity, as YAML.
func (s *run) enrollment() message.Text {
	objs := scoped.ExtensionAccountEnrollment(s.identity.Account.Key(), s.Namespace)
	if s.identity.IsSynthetic() {
		version, err := s.ServerVersion()
		how := scoped.ImpersonationLegacy
		if err == nil {
			how = scoped.ImpersonationFor(version)
		}
		objs = scoped.ExtensionEnrollment(s.identity, s.Namespace, how)
	}
	text, err := message.Documents(objs...)
	if err != nil {
		return "" // cannot happen: these objects contain only strings
	}
	return text
}
