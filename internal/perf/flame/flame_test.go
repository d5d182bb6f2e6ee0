package flame

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// stacks are samples of a profile: the outermost function first, parts of one location joined by a
// plus.
type stacks []struct {
	stack string
	value int64
}

// encode writes them as runtime/pprof does: two values of each sample, of which the last is what
// counts.
func (all stacks) encode(t require.TestingT) []byte {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples"}, {Type: "cpu"}}}
	functions, locations := map[string]*profile.Function{}, map[string]*profile.Location{}
	for _, s := range all {
		sample := &profile.Sample{Value: []int64{1, s.value}}
		for _, frames := range slices.Backward(strings.Fields(s.stack)) {
			if locations[frames] == nil {
				locations[frames] = &profile.Location{ID: uint64(len(locations) + 1), Line: linesOf(frames, functions)}
				p.Location = append(p.Location, locations[frames])
			}
			sample.Location = append(sample.Location, locations[frames])
		}
		p.Sample = append(p.Sample, sample)
	}
	p.Function = slices.Collect(maps.Values(functions))
	var encoded bytes.Buffer
	require.NoError(t, p.WriteUncompressed(&encoded))
	return encoded.Bytes()
}

// linesOf are the functions that are inlined in one location, the innermost first.
func linesOf(frames string, functions map[string]*profile.Function) (lines []profile.Line) {
	for _, name := range slices.Backward(strings.Split(frames, "+")) {
		if functions[name] == nil {
			functions[name] = &profile.Function{ID: uint64(len(functions) + 1), Name: name}
		}
		lines = append(lines, profile.Line{Function: functions[name]})
	}
	return lines
}

var example = stacks{
	{
		"runtime.main " +
			"github.com/lateen-mesh/lateen/internal/xds/serve.(*stream).read+" +
			"github.com/lateen-mesh/lateen/internal/view.Set[go.shape.*a/b.C].Get",
		600,
	},
	{
		"runtime.main " +
			"github.com/lateen-mesh/lateen/internal/xds/serve.(*stream).read+" +
			"github.com/lateen-mesh/lateen/internal/view.less<T>",
		150,
	},
	{"runtime.main syscall.Syscall", 246},
	{"runtime.main", 3},
	{"tiny", 1},
}

func TestSameProfileGivesTheSamePicture(t *testing.T) {
	tree, err := Read(example.encode(t))
	require.NoError(t, err)
	golden.File(t, "testdata/picture.svg", string(tree.Prune(0.005).SVG("connect: lateen perf churn & more")))
}

func TestReadTakesProfilesOfRuntimePprof(t *testing.T) {
	var encoded bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&encoded, 0))
	tree, err := Read(encoded.Bytes())
	require.NoError(t, err)
	require.Positive(t, tree.Value)
	require.Contains(t, string(tree.SVG("goroutines")), "flame.TestReadTakesProfilesOfRuntimePprof")
}

func TestReadRefusesWhatIsNoProfile(t *testing.T) {
	good := example.encode(t)
	for name, encoded := range map[string][]byte{
		"empty": nil, "text": []byte("goroutine 1 [running]:"), "cut": good[:len(good)/2], "a broken archive": {0x1f,
			0x8b, 8},
	} {
		_, err := Read(encoded)
		require.Error(t, err, name)
	}
}

// TestFrameIsAtLeastAsWideAsWhatItCalled: a function took at least what those that it called took,
// the root what all samples did, and what is pruned is small.
func TestFrameIsAtLeastAsWideAsWhatItCalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all stacks
		var sum int64
		for range rapid.IntRange(1, 20).Draw(t, "samples") {
			stack := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c+d", "b+a+c"}), 1, 6).Draw(t, "stack")
			value := rapid.Int64Range(0, 1000).Draw(t, "value")
			all = append(all, struct {
				stack string
				value int64
			}{strings.Join(stack, " "), value})
			sum += value
		}
		tree, err := Read(all.encode(t))
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

func TestStackIsCutAt400Frames(t *testing.T) {
	tree, err := Read(stacks{{strings.Repeat("again ", 3000), 5}}.encode(t))
	require.NoError(t, err)
	require.Equal(t, maxDepth+1, tree.depth())
}

func FuzzRead(f *testing.F) {
	f.Add(example.encode(f))
	f.Add(stacks{{"a+b c", 1}}.encode(f))
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
