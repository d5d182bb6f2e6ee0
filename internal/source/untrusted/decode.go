package untrusted

import (
	"encoding/json"
	"fmt"

	kubejson "sigs.k8s.io/json"
)

// JSON decodes into a value, which may have any type, as encoding/json does.
func (l Limits) JSON(raw []byte, into any) error {
	if err := l.check(raw, into); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// Typed decodes into an object of the API of Kubernetes as its server does: with regard to the case
// of names.
func (l Limits) Typed(raw []byte, into any) error {
	if err := l.check(raw, into); err != nil {
		return err
	}
	return kubejson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// check returns an error if it would cost too much to decode a text.
func (l Limits) check(raw []byte, into any) error {
	m, err := l.measure(raw)
	switch {
	case err != nil:
		return err
	case m.values > l.Values:
		return fmt.Errorf("it has %d values; want at most %d", m.values, l.Values)
	case m.costly:
		return checkQuantities(raw, into)
	}
	return nil
}
