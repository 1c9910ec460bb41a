package decoding

import (
	"encoding/json"
	"errors"
	"io"
)

// maxTrailing is how much of a response is read after its object.
const maxTrailing = 4096

// form copies the next part of a response to out. It returns the form of what follows; io.EOF ends the response.
type form func(in *json.Decoder, out *reader) (form, error)

// reader repairs the objects in a response while it is read. It holds one object at a time.
type reader struct {
	body io.ReadCloser
	in   *json.Decoder
	next form
	// repair returns what takes the place of an object.
	repair func(raw []byte) []byte
	// ready is what can be read.
	ready []byte
}

func newReader(body io.ReadCloser, repair func([]byte) []byte, next form) *reader {
	return &reader{body: body, in: json.NewDecoder(body), next: next, repair: repair}
}

func (r *reader) Close() error { return r.body.Close() }

func (r *reader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		next, err := r.next(r.in, r)
		if r.next = next; err != nil {
			r.next = ended(err)
		}
		if errors.Is(err, io.EOF) {
			r.drain()
		}
		if len(r.ready) == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// drain reads the response to its end. Otherwise the connection would not be used again, or a reset of the stream be sent.
func (r *reader) drain() { _, _ = io.CopyN(io.Discard, r.body, maxTrailing) }

func ended(err error) form {
	return func(*json.Decoder, *reader) (form, error) { return nil, err }
}

func (r *reader) write(parts ...[]byte) {
	for _, part := range parts {
		r.ready = append(r.ready, part...)
	}
}

// object is the form of a response that is one object.
func object(in *json.Decoder, out *reader) (form, error) {
	var raw json.RawMessage
	if err := in.Decode(&raw); err != nil {
		return nil, err
	}
	out.write(out.repair(raw))
	return nil, io.EOF
}

// errNoEvent means that a response to a watch request contains something other than objects.
var errNoEvent = errors.New("the event is not an object")

// event is the form of a response that is a sequence of watch events. Like a list, an event is not decoded as a whole: a decoder counts
// the levels of all that it decodes, and the API server stores objects that have as many as decoders accept.
func event(in *json.Decoder, out *reader) (form, error) {
	token, err := in.Token()
	if err != nil {
		return nil, err
	}
	if token != json.Delim('{') {
		return nil, errNoEvent
	}
	fields := map[json.Token]json.RawMessage{}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, unfinished(err)
		}
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return nil, unfinished(err)
		}
		fields[name] = raw
	}
	if _, err := in.Token(); err != nil {
		return nil, unfinished(err)
	}
	out.write([]byte(`{"type":`), fields["type"], []byte(`,"object":`), out.repair(fields["object"]), []byte("}\n"))
	return event, nil
}

// unfinished returns an error because of which the end of an event was not read. Clients do not report io.EOF.
func unfinished(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// errNoList means that a response to a list request is not an object.
var errNoList = errors.New("the list is not an object")

// items is the form of a response that is a list. Its items are repaired one by one, and everything else is copied.
func items(in *json.Decoder, out *reader) (form, error) {
	token, err := in.Token()
	if err != nil {
		return nil, err
	}
	if token != json.Delim('{') {
		return nil, errNoList
	}
	out.write([]byte("{"))
	return member(""), nil
}

// member is the form of the remaining fields of a list.
func member(separator string) form {
	return func(in *json.Decoder, out *reader) (form, error) {
		token, err := in.Token()
		if err != nil {
			return nil, err
		}
		if token == json.Delim('}') {
			out.write([]byte("}"))
			return nil, io.EOF
		}
		name, err := json.Marshal(token)
		if err != nil {
			return nil, err
		}
		out.write([]byte(separator), name, []byte(":"))
		if token == "items" {
			return entries(member(",")), nil
		}
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return nil, err
		}
		out.write(raw)
		return member(","), nil
	}
}

// entries is the form of the items of a list, which next follows.
func entries(next form) form {
	return func(in *json.Decoder, out *reader) (form, error) {
		token, err := in.Token()
		switch {
		case err != nil:
			return nil, err
		case token == nil:
			out.write([]byte("null"))
			return next, nil
		case token != json.Delim('['):
			return nil, errNoList
		}
		out.write([]byte("["))
		return entry("", next), nil
	}
}

func entry(separator string, next form) form {
	return func(in *json.Decoder, out *reader) (form, error) {
		if !in.More() {
			if _, err := in.Token(); err != nil {
				return nil, err
			}
			out.write([]byte("]"))
			return next, nil
		}
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil {
			return nil, err
		}
		out.write([]byte(separator), out.repair(raw))
		return entry(",", next), nil
	}
}
