package nametable

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kubernetes is the registry of Services, whose names have short forms.
const Kubernetes = "Kubernetes"

// External is the registry of ServiceEntries.
const External = "External"

// Name is one name and the addresses that it stands for.
type Name struct {
	// Host is the name in full, without a dot at its end. It may be a wildcard ("*.example.com").
	Host string
	// IPs are addresses of either family, as text.
	IPs []string
	// Registry is Kubernetes for Services and their Pods, whose names callers shorten.
	Registry string
	// ShortName and Namespace are set with registry Kubernetes: "reviews", or "db-0.db" of a Pod.
	ShortName, Namespace string
}

// The numbers of the fields of NameTable, of an entry of its map, and of NameInfo.
const (
	tableField     protowire.Number = 1
	keyField       protowire.Number = 1
	valueField     protowire.Number = 2
	ipsField       protowire.Number = 1
	registryField  protowire.Number = 2
	shortNameField protowire.Number = 3
	namespaceField protowire.Number = 4
)

// Append appends a name to an encoded table.
func Append(table []byte, n *Name) []byte {
	var info []byte
	for _, ip := range n.IPs {
		info = appendText(info, ipsField, ip)
	}
	info = appendSet(info, registryField, n.Registry)
	info = appendSet(info, shortNameField, n.ShortName)
	info = appendSet(info, namespaceField, n.Namespace)
	entry := appendText(nil, keyField, n.Host)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, valueField, protowire.BytesType), info)
	return protowire.AppendBytes(protowire.AppendTag(table, tableField, protowire.BytesType), entry)
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// appendSet is appendText for a field that is left out when it is empty.
func appendSet(b []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(b, field, text)
}

// Parse returns the names of an encoded table, in its order. Of a host that stands there twice the
// last entry counts; both are returned. Fields that it does not know are skipped.
func Parse(table []byte) ([]Name, error) {
	var names []Name
	err := eachField(table, func(field protowire.Number, value []byte) error {
		if field != tableField {
			return nil
		}
		n, err := parseEntry(value)
		if err != nil {
			return err
		}
		names = append(names, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

func parseEntry(entry []byte) (n Name, err error) {
	err = eachField(entry, func(field protowire.Number, value []byte) error {
		switch field {
		case keyField:
			n.Host = string(value)
		case valueField:
			return parseInfo(value, &n)
		}
		return nil
	})
	return n, err
}

func parseInfo(info []byte, n *Name) error {
	return eachField(info, func(field protowire.Number, value []byte) error {
		switch field {
		case ipsField:
			n.IPs = append(n.IPs, string(value))
		case registryField:
			n.Registry = string(value)
		case shortNameField:
			n.ShortName = string(value)
		case namespaceField:
			n.Namespace = string(value)
		}
		return nil
	})
}

// eachField calls f with each length-delimited field of a message.
func eachField(message []byte, f func(field protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		field, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("NameTable: %w", protowire.ParseError(n))
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(field, typ, message)
		if size < 0 {
			return fmt.Errorf("NameTable: field %d: %w", field, protowire.ParseError(size))
		}
		if typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := f(field, value); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
