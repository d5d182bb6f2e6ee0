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

// largest bounds what a profile has when it is no longer compressed.
const largest = 256 << 20

// Read reads a profile as runtime/pprof writes it, compressed or not. Of several values of a sample the last counts: of a CPU profile
// nanoseconds, of a heap profile the bytes in use.
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
	plain, err := io.ReadAll(io.LimitReader(unzip, largest+1))
	if err == nil && len(plain) > largest {
		err = fmt.Errorf("more than %d MiB", largest>>20)
	}
	return plain, err
}

// deepest is how many functions on top of each other are shown; what those above took is theirs.
const deepest = 400

// treeOf puts the samples together, outermost function first.
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

// stackOf is the functions of a sample, the outermost first.
func stackOf(s *profile.Sample) (names []string) {
	for _, location := range slices.Backward(s.Location) {
		for _, line := range slices.Backward(location.Line) {
			if len(names) == deepest {
				return names
			}
			names = append(names, nameOf(line.Function))
		}
	}
	return names
}

// nameOf is a function's name; one that the profile does not name is a question mark.
func nameOf(f *profile.Function) string {
	if f.Name == "" {
		return "?"
	}
	return f.Name
}
