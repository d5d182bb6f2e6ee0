package flame

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// stacks are samples of a profile: the outermost function first, parts of one location joined by a plus.
type stacks []struct {
	stack string
	value uint64
}

// encode writes them as runtime/pprof does: two values of each sample, of which the last is what counts.
func (all stacks) encode() (encoded []byte) {
	names, locations := []string{""}, map[string]uint64{}
	index := func(name string) uint64 {
		for i, n := range names {
			if n == name {
				return uint64(i)
			}
		}
		names = append(names, name)
		return uint64(len(names) - 1)
	}
	message := func(number protowire.Number, body []byte) {
		encoded = protowire.AppendBytes(protowire.AppendTag(encoded, number, protowire.BytesType), body)
	}
	message(profileSampleType, nil)
	message(profileSampleType, nil)
	for _, s := range all {
		var ids []byte
		frames := strings.Fields(s.stack)
		for i := len(frames) - 1; i >= 0; i-- {
			if _, ok := locations[frames[i]]; !ok {
				locations[frames[i]] = uint64(len(locations) + 1)
			}
			ids = protowire.AppendVarint(ids, locations[frames[i]])
		}
		body := protowire.AppendBytes(protowire.AppendTag(nil, sampleLocations, protowire.BytesType), ids)
		for _, v := range []uint64{1, s.value} { // not packed, which is as good
			body = protowire.AppendVarint(protowire.AppendTag(body, sampleValues, protowire.VarintType), v)
		}
		message(profileSample, body)
	}
	for frames, id := range locations {
		body := protowire.AppendVarint(protowire.AppendTag(nil, locationID, protowire.VarintType), id)
		inlined := strings.Split(frames, "+")
		for i := len(inlined) - 1; i >= 0; i-- {
			line := protowire.AppendVarint(protowire.AppendTag(nil, lineFunction, protowire.VarintType), index(inlined[i]))
			body = protowire.AppendBytes(protowire.AppendTag(body, locationLine, protowire.BytesType), line)
		}
		message(profileLocation, body)
	}
	for i, name := range names {
		body := protowire.AppendVarint(protowire.AppendTag(nil, functionID, protowire.VarintType), uint64(i))
		message(profileFunction, protowire.AppendVarint(protowire.AppendTag(body, functionName, protowire.VarintType), uint64(i)))
		message(profileStrings, []byte(name))
	}
	return encoded
}

var example = stacks{
	{"runtime.main github.com/lateen-mesh/lateen/internal/xds/serve.(*stream).read+github.com/lateen-mesh/lateen/internal/view.Set[go.shape.*a/b.C].Get", 600},
	{"runtime.main github.com/lateen-mesh/lateen/internal/xds/serve.(*stream).read+github.com/lateen-mesh/lateen/internal/view.less<T>", 150},
	{"runtime.main syscall.Syscall", 246},
	{"runtime.main", 3},
	{"tiny", 1},
}

func TestPicture(t *testing.T) {
	tree, err := Read(example.encode())
	require.NoError(t, err)
	golden.File(t, "testdata/picture.svg", string(tree.Prune(0.005).SVG("connect: lateen perf churn & more")))
}

func TestWhatRuntimeWritesIsRead(t *testing.T) {
	var encoded bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&encoded, 0))
	tree, err := Read(encoded.Bytes())
	require.NoError(t, err)
	require.Positive(t, tree.Value)
	require.Contains(t, string(tree.SVG("goroutines")), "flame.TestWhatRuntimeWritesIsRead")
}

func TestWhatIsNoProfileIsRefused(t *testing.T) {
	good := example.encode()
	for name, encoded := range map[string][]byte{
		"empty": nil, "text": []byte("goroutine 1 [running]:"), "cut": good[:len(good)/2], "a broken archive": {0x1f, 0x8b, 8},
	} {
		_, err := Read(encoded)
		require.Error(t, err, name)
	}
}

// TestFramesAddUp: a function took at least what those that it called took, the root what all samples did, and what is pruned is small.
func TestFramesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all stacks
		var sum int64
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			stack := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c+d", "b+a+c"}), 1, 6).Draw(t, "stack")
			value := rapid.Uint64Range(0, 1000).Draw(t, "value")
			all = append(all, struct {
				stack string
				value uint64
			}{strings.Join(stack, " "), value})
			sum += int64(value)
		}
		tree, err := Read(all.encode())
		require.NoError(t, err)
		require.Equal(t, sum, tree.Value)
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		var check func(*Tree)
		check = func(f *Tree) {
			var called int64
			for _, c := range f.Children {
				require.GreaterOrEqual(t, float64(c.Value), share*float64(sum))
				called += c.Value
				check(c)
			}
			require.LessOrEqual(t, called, f.Value)
		}
		check(tree.Prune(share))
		require.Equal(t, tree, tree.Prune(0), "nothing is below nothing")
	})
}

func TestAStackWithoutEndIsCut(t *testing.T) {
	tree, err := Read(stacks{{strings.Repeat("again ", 3000), 5}}.encode())
	require.NoError(t, err)
	require.Equal(t, deepest+1, tree.depth())
}

func FuzzRead(f *testing.F) {
	f.Add(example.encode())
	f.Add(stacks{{"a+b c", 1}}.encode())
	f.Fuzz(func(t *testing.T, encoded []byte) {
		tree, err := Read(encoded)
		if err != nil {
			return
		}
		decoder := xml.NewDecoder(bytes.NewReader(tree.Prune(0.005).SVG("fuzz")))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
}
