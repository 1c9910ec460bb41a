package cert

import "fmt"

// hidden is all that a PrivateKey ever prints as.
const hidden = "[private key]"

// PrivateKey holds a private key as PEM. No way of formatting, logging or encoding shows it, and no
// reflection either: only [PrivateKey.PEM] does.
type PrivateKey struct{ reveal func() []byte }

func newPrivateKey(pem []byte) PrivateKey { return PrivateKey{reveal: func() []byte { return pem }} }

// PEM is the key itself, for the Secret and nowhere else.
func (k PrivateKey) PEM() []byte {
	if k.reveal == nil {
		return nil
	}
	return k.reveal()
}

// Format implements fmt.Formatter for every verb.
func (PrivateKey) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, hidden) }

// MarshalText implements encoding.TextMarshaler, for JSON and YAML.
func (PrivateKey) MarshalText() ([]byte, error) { return []byte(hidden), nil }
