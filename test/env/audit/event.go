package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Event is what the tests look at of one completed request.
type Event struct {
	AuditID    string `json:"auditID"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	UserAgent  string `json:"userAgent"`
	User       User   `json:"user"`
	// Impersonated is whom the sender acted for, if anybody.
	Impersonated *User   `json:"impersonatedUser"`
	Object       *Object `json:"objectRef"`
	Response     struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	// Received and Answered are when the API server had the request and was done with it.
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
	// Sent and Returned are the objects of the request and of its answer, of the few kinds of requests of which the
	// control plane's audit policy keeps them.
	Sent     json.RawMessage `json:"requestObject"`
	Returned json.RawMessage `json:"responseObject"`
	// Annotations are what admission noted, among others that a webhook did not answer.
	Annotations map[string]string `json:"annotations"`
}

// User is who the API server took the sender for.
type User struct {
	Username string `json:"username"`
	UID      string `json:"uid"`
}

// Object is what a request was about; nil for paths outside of the API.
type Object struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// IsWrite says whether the request could have changed anything; a dry run cannot.
func (e Event) IsWrite() bool {
	return e.AsksToWrite() && !strings.Contains(e.RequestURI, "dryRun=All")
}

// Wrote says whether the request has changed something.
func (e Event) Wrote() bool { return e.IsWrite() && e.Response.Code/100 == 2 }

// AsksToWrite says whether the verb is one that writes: a dry run needs the same permissions.
func (e Event) AsksToWrite() bool {
	switch e.Verb {
	case "get", "list", "watch", "head", "options":
		return false
	}
	return true
}

// Created says whether the request made its object: a server-side apply that creates answers 201.
func (e Event) Created() bool { return e.Response.Code == 201 }

func (e Event) String() string {
	return fmt.Sprintf("%s: %s %s (%d)", e.User.Username, e.Verb, e.RequestURI, e.Response.Code)
}

// Each calls do for every complete line of an audit log.
func Each(path string, do func(Event) error) error {
	_, err := From(path, 0, do)
	return err
}

// From calls do for every complete line of an audit log from an offset on, and returns where to go on.
func From(path string, offset int64, do func(Event) error) (int64, error) {
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
			return offset, nil // what is left is still being written
		}
		if err != nil {
			return offset, err
		}
		offset += int64(len(line))
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return offset, fmt.Errorf("%s: %w", path, err)
		}
		if err := do(e); err != nil {
			return offset, err
		}
	}
}
