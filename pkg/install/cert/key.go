package cert

import "fmt"

// hidden is printed in place of a PrivateKey.
const hidden = "[private key]"

// PrivateKey holds a private key as PEM. No formatting, logging, encoding or reflection reveals it; only
// [PrivateKey.PEM] does.
type PrivateKey struct{ reveal func() []byte }

func newPrivateKey(pem []byte) PrivateKey { return PrivateKey{reveal: func() []byte { return pem }} }

// PEM returns the key, or nil if there is none. Call it only to validate the key or to store it in the Secret.
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
