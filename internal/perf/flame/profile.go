package flame

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of the messages of a profile that are read (github.com/google/pprof, proto/profile.proto).
const (
	profileSampleType = 1
	profileSample     = 2
	profileLocation   = 4
	profileFunction   = 5
	profileStrings    = 6

	sampleLocations = 1
	sampleValues    = 2

	locationID   = 1
	locationLine = 4

	lineFunction = 1

	functionID   = 1
	functionName = 2
)

// largest bounds what a profile has when it is no longer compressed.
const largest = 256 << 20

// profile is what is read of one before its names are put together.
type profile struct {
	values    int // of each sample
	samples   []sample
	functions map[uint64]uint64   // id to the number of its name
	locations map[uint64][]uint64 // id to functions, the innermost of those that were inlined first
	strings   []string
}

// sample is a stack, the innermost location first, with what was counted.
type sample struct{ locations, values []uint64 }

// Read reads a profile as runtime/pprof writes it, compressed or not. Of several values of a sample the last counts: of a CPU profile
// nanoseconds, of a heap profile the bytes in use.
func Read(encoded []byte) (*Tree, error) {
	plain, err := plainOf(encoded)
	if err != nil {
		return nil, err
	}
	p := profile{functions: map[uint64]uint64{}, locations: map[uint64][]uint64{}}
	if err := eachField(plain, p.field); err != nil {
		return nil, fmt.Errorf("the profile cannot be read: %w", err)
	}
	if p.values == 0 {
		return nil, errors.New("the profile has no type of samples; want a file of runtime/pprof")
	}
	return p.tree()
}

func plainOf(encoded []byte) ([]byte, error) {
	if !bytes.HasPrefix(encoded, []byte{0x1f, 0x8b}) {
		return encoded, nil
	}
	unzip, err := gzip.NewReader(bytes.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("the profile cannot be read: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(unzip, largest+1))
	if err == nil && len(plain) > largest {
		err = fmt.Errorf("more than %d MiB", largest>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("the profile cannot be read: %w", err)
	}
	return plain, nil
}

func (p *profile) field(number protowire.Number, f field) (err error) {
	switch number {
	case profileSampleType:
		p.values++
	case profileSample:
		var s sample
		err = eachField(f.bytes, s.field)
		p.samples = append(p.samples, s)
	case profileLocation:
		err = p.location(f.bytes)
	case profileFunction:
		var id, name uint64
		err = eachField(f.bytes, func(number protowire.Number, f field) error {
			switch number {
			case functionID:
				id = f.number
			case functionName:
				name = f.number
			}
			return nil
		})
		p.functions[id] = name
	case profileStrings:
		p.strings = append(p.strings, string(f.bytes))
	}
	return err
}

func (s *sample) field(number protowire.Number, f field) (err error) {
	switch number {
	case sampleLocations:
		s.locations, err = f.appendTo(s.locations)
	case sampleValues:
		s.values, err = f.appendTo(s.values)
	}
	return err
}

func (p *profile) location(encoded []byte) error {
	var id uint64
	var functions []uint64
	err := eachField(encoded, func(number protowire.Number, f field) error {
		switch number {
		case locationID:
			id = f.number
		case locationLine:
			return eachField(f.bytes, func(number protowire.Number, f field) error {
				if number == lineFunction {
					functions = append(functions, f.number)
				}
				return nil
			})
		}
		return nil
	})
	p.locations[id] = functions
	return err
}

// deepest is how many functions on top of each other are shown; what those above took is theirs.
const deepest = 400

// tree puts the samples together, outermost function first.
func (p *profile) tree() (*Tree, error) {
	root := &Tree{Name: "all"}
	for _, s := range p.samples {
		if len(s.values) != p.values {
			return nil, fmt.Errorf("the profile cannot be read: a sample has %d values, want %d", len(s.values), p.values)
		}
		value := int64(s.values[p.values-1])
		if value < 0 {
			return nil, fmt.Errorf("the profile cannot be read: a sample has the value %d", value)
		}
		root.add(p.stack(s.locations), value)
	}
	root.order()
	return root, nil
}

// stack is the functions of a sample, the outermost first.
func (p *profile) stack(locations []uint64) (names []string) {
	for _, l := range slices.Backward(locations) {
		for _, f := range slices.Backward(p.locations[l]) {
			if len(names) == deepest {
				return names
			}
			names = append(names, p.name(f))
		}
	}
	return names
}

// name is that of a function; one that the profile does not name is a question mark.
func (p *profile) name(function uint64) string {
	if at, ok := p.functions[function]; ok && at < uint64(len(p.strings)) && p.strings[at] != "" {
		return p.strings[at]
	}
	return "?"
}

// field is the value of a field: a number, or bytes.
type field struct {
	number uint64
	bytes  []byte
}

// appendTo appends the numbers of a repeated field, which come one by one or packed.
func (f field) appendTo(all []uint64) ([]uint64, error) {
	if f.bytes == nil {
		return append(all, f.number), nil
	}
	for packed := f.bytes; len(packed) > 0; {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		all, packed = append(all, v), packed[n:]
	}
	return all, nil
}

// eachField calls take for the fields of a message that are numbers or bytes.
func eachField(message []byte, take func(protowire.Number, field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			if n = protowire.ConsumeFieldValue(number, kind, message); n >= 0 {
				message = message[n:]
				continue
			}
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := take(number, f); err != nil {
			return err
		}
	}
	return nil
}
