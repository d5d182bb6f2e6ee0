package flame

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/google/pprof/profile"
)

// maxProfileSize bounds a decompressed profile, in bytes.
const maxProfileSize = 256 << 20

// Read parses a profile as runtime/pprof writes it, compressed or not. It uses the last value of
// each sample: nanoseconds in a CPU profile, bytes in use in a heap profile.
func Read(encoded []byte) (*Tree, error) {
	plain, err := plainOf(encoded)
	if err != nil {
		return nil, fmt.Errorf("the profile cannot be read: %w", err)
	}
	p, err := profile.ParseUncompressed(plain)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("the profile cannot be read: %w", err)
	}
	if len(p.SampleType) == 0 {
		return nil, errors.New("the profile has no type of samples; want a file of runtime/pprof")
	}
	return treeOf(p)
}

func plainOf(encoded []byte) ([]byte, error) {
	if !bytes.HasPrefix(encoded, []byte{0x1f, 0x8b}) {
		return encoded, nil
	}
	unzip, err := gzip.NewReader(bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(unzip, maxProfileSize+1))
	if err == nil && len(plain) > maxProfileSize {
		err = fmt.Errorf("more than %d MiB", maxProfileSize>>20)
	}
	return plain, err
}

// maxDepth is how many frames of a stack are shown. Deeper frames count for the last one shown.
const maxDepth = 400

// treeOf merges the samples into a tree, outermost function first.
func treeOf(p *profile.Profile) (*Tree, error) {
	root := &Tree{Name: "all"}
	for _, s := range p.Sample {
		value := s.Value[len(s.Value)-1]
		if value < 0 {
			return nil, fmt.Errorf("the profile cannot be read: a sample has the value %d", value)
		}
		root.add(stackOf(s), value)
	}
	root.order()
	return root, nil
}

// stackOf returns the functions of a sample, outermost first.
func stackOf(s *profile.Sample) (names []string) {
	for _, location := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(location.Line) {
			if len(names) == maxDepth {
				return names
			}
			names = append(names, nameOf(line.Function))
		}
	}
	return names
}

// nameOf returns a function's name, or a question mark.
func nameOf(f *profile.Function) string {
	if f.Name == "" {
		return "?"
	}
	return f.Name
}
