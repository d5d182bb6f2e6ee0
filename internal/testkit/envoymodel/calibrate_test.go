package envoymodel_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
)

var (
	record = flag.Bool("record", false, "record all scripts in testdata anew, from a real Envoy")
	every  = flag.Bool("all", false, "play all scripts to a real Envoy, not one in eight")
)

// generated is how many scripts of each variant the generator made. They are recorded with what was
// seen, so that they stay as they are when the generator changes; -record adds those that are
// missing.
const generated = 60

// recording is a file of testdata.
type recording struct {
	name    string
	comment []byte
	scripts []*envoymodel.Script
}

func recordings(t *testing.T) []*recording {
	t.Helper()
	var out []*recording
	for _, name := range []string{
		"delta", "delta-generated", "sotw", "sotw-generated", "vhds", "vhds-generated", "leds", "leds-generated",
		"ecds", "ecds-generated",
	} {
		archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
		require.NoError(t, err)
		r := &recording{name: name, comment: archive.Comment}
		for _, f := range archive.Files {
			s, err := envoymodel.ParseScript(f.Name, string(f.Data))
			require.NoError(t, err)
			r.scripts = append(r.scripts, s)
		}
		out = append(out, r)
	}
	return out
}

func (r *recording) generate() {
	protocol, _, is := strings.Cut(r.name, "-")
	for seed := uint64(len(r.scripts)) + 1; is && seed <= generated; seed++ {
		switch protocol {
		case "ecds":
			r.scripts = append(r.scripts, envoymodel.GenerateECDS(seed))
		case "leds":
			r.scripts = append(r.scripts, envoymodel.GenerateLEDS(seed))
		case "vhds":
			r.scripts = append(r.scripts, envoymodel.GenerateVHDS(seed))
		case envoymodel.StateOfTheWorld.String():
			r.scripts = append(r.scripts, envoymodel.Generate(envoymodel.StateOfTheWorld, seed))
		default:
			r.scripts = append(r.scripts, envoymodel.Generate(envoymodel.Delta, seed))
		}
	}
}

func (r *recording) write(t *testing.T) {
	archive := &txtar.Archive{Comment: r.comment}
	for _, s := range r.scripts {
		archive.Files = append(archive.Files, txtar.File{Name: s.Name, Data: []byte(s.String())})
	}
	require.NoError(t, os.WriteFile(filepath.Join("testdata", r.name+".txtar"), txtar.Format(archive), 0o644))
}

// TestModelBehavesAsRecorded plays every script to the model: it says and has what the real Envoy
// said and had.
func TestModelBehavesAsRecorded(t *testing.T) {
	if *record {
		t.Skip("what is recorded is about to change")
	}
	count := 0
	for _, r := range recordings(t) {
		for _, s := range r.scripts {
			count++
			t.Run(r.name+"/"+s.Name, func(t *testing.T) { requireModel(t, s) })
		}
	}
	require.GreaterOrEqual(t, count, 200)
}

// TestRealEnvoyBehavesAsRecorded plays scripts to real Envoys, one of its own each, so that a
// version of Envoy that behaves in another way is noticed. An outcome that differs from the
// recorded one is right if the model can have it too: see requireModel. Where a script has times in
// it and the machine was slower than those, the outcome says nothing, and it is played again.
func TestRealEnvoyBehavesAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real Envoys")
	}
	for _, r := range recordings(t) {
		t.Run(r.name, func(t *testing.T) {
			if *record {
				r.generate()
				t.Cleanup(func() { r.write(t) })
			}
			for i, s := range r.scripts {
				if i%8 != 0 && !*every && !*record {
					continue
				}
				t.Run(s.Name, func(t *testing.T) {
					t.Parallel()
					played := s
					for range replays {
						peer := startReal(t, s)
						var err error
						played, err = s.Play(peer)
						require.NoError(t, err)
						if *record || played.String() == s.String() || !peer.late() {
							break
						}
					}
					switch {
					case *record:
						r.scripts[i] = played
					case played.String() != s.String():
						t.Log("as recorded:\n" + s.String())
						requireModel(t, played)
					}
				})
			}
		})
	}
}

// replays is how often a script is played at most.
const replays = 20

// attempts is how many orders of recipients are tried for a script: with up to four of them in a
// refused response, one is missed less often than once in 10^9.
const attempts = 500

// requireModel plays the script to models until one does as was seen. What they differ in is the
// order in which they serve the recipients of a response, which in Envoy is an accident.
func requireModel(t *testing.T, seen *envoymodel.Script) {
	t.Helper()
	var first string
	for seed := range uint64(attempts) {
		o := envoymodel.Options{Protocol: seen.Protocol, Drain: seen.Drain}
		if seed > 0 {
			o.Shuffle = rand.New(rand.NewPCG(seed, 0)).Shuffle
		}
		played, err := seen.Play(envoymodel.NewPeer(o))
		require.NoError(t, err)
		if played.String() == seen.String() {
			return
		}
		if seed == 0 {
			first = played.String()
		}
	}
	require.Equal(t, seen.String(), first, "the real Envoy is expected, the model actual")
}

// TestWrittenScriptIsReadBackEqual: what is written of a script is read as the same script.
func TestWrittenScriptIsReadBackEqual(t *testing.T) {
	for _, r := range recordings(t) {
		for _, s := range r.scripts {
			again, err := envoymodel.ParseScript(s.Name, s.String())
			require.NoError(t, err)
			require.True(t, slices.EqualFunc(s.Steps, again.Steps, func(a, b envoymodel.Step) bool {
				return a.Line == b.Line
			}))
			require.Equal(t, s.String(), again.String())
		}
	}
}
