// Package raw writes text in ways that the check must report, and in ways that it must accept.
package raw

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/remit-olm/remit/pkg/lib/message"
	"github.com/remit-olm/remit/pkg/lib/status"
)

const fixed = "fixed"

func conditions(other string) []metav1.Condition {
	once := status.Text(other)
	mixed := status.Text(other)
	mixed = other
	c := metav1.Condition{Message: fixed}
	c.Message = other                       // want
	c.Message, c.Reason = "a "+other, other // want
	c.Message += other                      // want
	p := &operatorsv1alpha1.InstallPlan{}
	p.Status.Message = fmt.Sprintf("a %s", other) // want
	p.Status.Message = status.Text(message.Sprintf("a %s", other))
	p.Status.Message = cmp.Or(once, fixed)
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	csv.SetPhase("Failed", "a", other, nil)                                           // want
	csv.SetRequirementStatus(nil)                                                     // want
	return []metav1.Condition{c, {Message: once}, {Message: mixed}, {Message: other}} // want
}

func notes(r events.EventRecorder, other string) {
	r.Eventf(nil, nil, "Warning", "a", "b", "%s", status.Note(other))
	r.Eventf(nil, nil, "Warning", "a", "b", "%s", other)                // want
	r.Eventf(nil, nil, "Warning", "a", "b", other)                      // want
	r.Eventf(nil, nil, "Warning", "a", "b", "a %s", status.Note(other)) // want
}

func output(out io.Writer, other string) {
	var text strings.Builder
	fmt.Fprintf(&text, "a %s", other)
	var buffer bytes.Buffer
	buffer.WriteString(other)        // want
	fmt.Println(other)               // want
	fmt.Fprintf(out, "a %s", other)  // want
	io.WriteString(os.Stderr, other) // want
	os.Stdout.WriteString(other)     // want
	message.Fprintf(out, "a %s", other)
	message.Fprintln(out, message.Text(other))  // want
	message.Fprintf(out, message.Format(other)) // want
}
