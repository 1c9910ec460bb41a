package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/remit-olm/remit/pkg/lib/budget"
)

// Event contains the fields that tests use from the audit event of a completed request.
type Event struct {
	AuditID    string `json:"auditID"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       User   `json:"user"`
	// Impersonated is the user that the sender impersonated, if any.
	Impersonated *User   `json:"impersonatedUser"`
	Object       *Object `json:"objectRef"`
	Response     struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Received and Answered are the times at which the API server received the request and finished it.
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
	// Sent and Returned are the objects in the request and in its response, for the few kinds of requests for which the
	// control plane's audit policy records them.
	Sent     json.RawMessage `json:"requestObject"`
	Returned json.RawMessage `json:"responseObject"`
	// Annotations are the audit annotations. For example, the API server records here that a webhook did not respond.
	Annotations map[string]string `json:"annotations"`
}

// User is the authenticated sender.
type User struct {
	Username string   `json:"username"`
	UID      string   `json:"uid"`
	Groups   []string `json:"groups"`
}

// Object is the object of a request; nil for non-resource paths.
type Object struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// IsWrite reports whether the request could have changed an object. A dry run cannot.
func (e Event) IsWrite() bool {
	return e.AsksToWrite() && !strings.Contains(e.RequestURI, "dryRun=All")
}

// Wrote reports whether the request was a successful write.
func (e Event) Wrote() bool { return e.IsWrite() && e.Response.Code/100 == 2 }

// DescribesGroup reports whether the operatorgroup controller sent the request to patch a Namespace or an
// OperatorGroup. The controller labels the target namespaces of an OperatorGroup and annotates the OperatorGroup,
// whether or not an operator is installed.
func (e Event) DescribesGroup() bool {
	return e.Verb == "patch" && e.Object != nil && (e.Object.Resource == "namespaces" || e.Object.Resource == "operatorgroups") &&
		e.Object.Subresource == "" && strings.HasSuffix(e.RequestURI, "?fieldManager=remit-operatorgroup")
}

// AsksToWrite reports whether the request needs permission to write, as dry runs also do.
func (e Event) AsksToWrite() bool {
	switch e.Verb {
	case "get", "list", "watch", "head", "options":
		return false
	}
	return true
}

// Actor returns the user whose permissions applied to the request: the impersonated user, if the sender impersonated one.
func (e Event) Actor() string {
	if e.Impersonated != nil {
		return e.Impersonated.Username
	}
	return e.User.Username
}

// Created reports whether the request created its object. A server-side apply that creates an object returns 201.
func (e Event) Created() bool { return e.Response.Code == 201 }

func (e Event) String() string {
	return fmt.Sprintf("%s: %s %s (%d)", e.User.Username, e.Verb, e.RequestURI, e.Response.Code)
}

// Each calls do for every complete line of an audit log.
func Each(path string, do func(Event) error) error {
	_, err := From(path, 0, do)
	return err
}

// From calls do for every complete line of an audit log after an offset and returns the offset at which to continue.
func From(path string, offset int64, do func(Event) error) (int64, error) {
	return Lines(path, offset, func(line []byte) error {
		e, err := decode(line)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return do(e)
	})
}

// decode decodes a line. It decodes the objects in it alone, because they may have as many levels as a decoder accepts.
func decode(line []byte) (e Event, err error) {
	if !budget.HasMoreLevels(line, budget.MaxLevels) {
		err = json.Unmarshal(line, &e)
		return e, err
	}
	fields := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(line))
	if _, err := d.Token(); err != nil {
		return e, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return e, err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return e, err
		}
		fields[fmt.Sprint(name)] = raw
	}
	e.Sent, e.Returned = fields["requestObject"], fields["responseObject"]
	delete(fields, "requestObject")
	delete(fields, "responseObject")
	rest, err := json.Marshal(fields)
	if err != nil {
		return e, err
	}
	err = json.Unmarshal(rest, &e)
	return e, err
}

// Lines is like From, but does not decode the lines.
func Lines(path string, offset int64, do func(line []byte) error) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return offset, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return offset, err
	}
	for r := bufio.NewReaderSize(f, 1<<16); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return offset, nil // the rest is still being written
		}
		if err != nil {
			return offset, err
		}
		offset += int64(len(line))
		if err := do(line); err != nil {
			return offset, err
		}
	}
}

// End returns the offset after the last complete line of an audit log, for use with From.
func End(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	for chunk := make([]byte, 1<<12); end > 0; {
		from := max(0, end-int64(len(chunk)))
		n, err := f.ReadAt(chunk[:end-from], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(chunk[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}
