// Package raw writes text in ways that the check must report, and in ways that it must accept.
package raw

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

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

func oldNotes(r record.EventRecorder, other string) {
	r.Event(nil, "Warning", "a", other)                     // want
	r.Eventf(nil, "Warning", "a", "%s", status.Note(other)) // want
	_ = corev1.Event{Message: other}                        // want
	_ = corev1.Event{Message: status.Note(other), Reason: "a"}
}

func output(out io.Writer, other string) {
	var text strings.Builder
	fmt.Fprintf(&text, "a %s", other)
	var buffer bytes.Buffer
	buffer.WriteString(other)              // want
	fmt.Println(other)                     // want
	fmt.Fprintf(out, "a %s", other)        // want
	io.WriteString(os.Stderr, other)       // want
	os.Stdout.WriteString(other)           // want
	out.Write([]byte(other))               // want
	os.Stdout.Write([]byte(other))         // want
	io.Copy(out, strings.NewReader(other)) // want
	json.NewEncoder(out).Encode(other)     // want
	log.Print(other)                       // want
	println(other)                         // want
	(&cobra.Command{}).Println(other)      // want
	out.Write(buffer.Bytes())
	message.Fprintf(out, "a %s", other)
	message.Fprintln(out, message.Text(other))  // want
	message.Fprintf(out, message.Format(other)) // want
}
