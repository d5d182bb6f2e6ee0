package envoymodel

import (
	"fmt"
	"strings"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Protocol is the xDS variant that a client speaks.
type Protocol int

// The variants.
const (
	Delta Protocol = iota
	StateOfTheWorld
)

// String is the word of scripts: delta or sotw.
func (p Protocol) String() string { return [...]string{"delta", "sotw"}[p] }

// Script is what a server does to one Envoy from its start on, and what was seen of that Envoy.
//
//	delta|sotw [drain=DURATION]   the variant, and Envoy's drain time (10m unless given)
//	TYPE [RESOURCE]… [-NAME]…     sends one response: resources as in Resource, and
//	                              removals (delta only)
//	drop                          ends the stream; Envoy comes back
//	pass DURATION                 lets time pass
//	settle                        waits until Envoy has read everything; what it said and
//	                              has follows, indented
//
// TYPE is cds, eds, leds, lds, rds, vhds or ecds.
//
// Responses that follow each other without settle go out in one burst. Nonces are c1, c2, … for
// cds, and so on, and start anew on each stream; in state of the world the version of a response is
// v and its place in the script.
type Script struct {
	Name     string
	Protocol Protocol
	Drain    time.Duration
	Steps    []Step
}

// Step is one line of a script.
type Step struct {
	Line      string
	Op        string // "send", "drop", "pass" or "settle"
	Kind      Kind
	Resources []Resource
	Removed   []string
	Pause     time.Duration
	Seen      []string // of settle
}

// DefaultDrain is the drain time of an Envoy that is told none.
const DefaultDrain = 10 * time.Minute

// ParseScript reads a script's text.
func ParseScript(name, text string) (*Script, error) {
	s := &Script{Name: name, Drain: DefaultDrain}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if err := s.parseLine(i, line); err != nil {
			return nil, fmt.Errorf("script %s, line %d: %w", name, i+1, err)
		}
	}
	return s, nil
}

func (s *Script) parseLine(i int, line string) error {
	f := strings.Fields(line)
	switch {
	case i == 0:
		return s.parseHead(f)
	case len(f) == 0 || f[0][0] == '#':
		return nil
	case strings.HasPrefix(line, "  "):
		last := len(s.Steps) - 1
		if last < 0 || s.Steps[last].Op != "settle" {
			return fmt.Errorf("what is seen belongs behind settle, not %q", line)
		}
		s.Steps[last].Seen = append(s.Steps[last].Seen, strings.TrimSpace(line))
		return nil
	}
	st, err := parseStep(line, f)
	if err == nil {
		s.Steps = append(s.Steps, st)
	}
	return err
}

func (s *Script) parseHead(f []string) error {
	for _, word := range f {
		switch drain, ok := strings.CutPrefix(word, "drain="); {
		case ok:
			d, err := time.ParseDuration(drain)
			if err != nil {
				return err
			}
			s.Drain = d
		case word == Delta.String():
			s.Protocol = Delta
		case word == StateOfTheWorld.String():
			s.Protocol = StateOfTheWorld
		default:
			return fmt.Errorf("%q: want delta or sotw, and drain=DURATION", word)
		}
	}
	return nil
}

func parseStep(line string, f []string) (Step, error) {
	st := Step{Line: line, Op: f[0]}
	if k, ok := kindByName(f[0]); ok {
		st.Op, st.Kind = "send", k
		for _, word := range f[1:] {
			if name, ok := strings.CutPrefix(word, "-"); ok {
				st.Removed = append(st.Removed, name)
				continue
			}
			r, err := ParseResource(k, word)
			if err != nil {
				return st, err
			}
			st.Resources = append(st.Resources, r)
		}
		return st, nil
	}
	switch {
	case (f[0] == "drop" || f[0] == "settle") && len(f) == 1:
		return st, nil
	case f[0] == "pass" && len(f) == 2:
		var err error
		st.Pause, err = time.ParseDuration(f[1])
		return st, err
	}
	return st, fmt.Errorf("%q: want cds, eds, leds, lds, rds, vhds, ecds, drop, pass DURATION or settle", line)
}

// String is the script's text.
func (s *Script) String() string {
	var b strings.Builder
	b.WriteString(s.Protocol.String())
	if s.Drain != DefaultDrain {
		fmt.Fprintf(&b, " drain=%s", s.Drain)
	}
	b.WriteString("\n")
	for _, st := range s.Steps {
		b.WriteString(st.Line + "\n")
		for _, line := range st.Seen {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// Peer is an Envoy to which a script can be played.
type Peer interface {
	// Deliver hands over one response.
	Deliver(response proto.Message) error
	// Drop ends the stream; the peer opens another.
	Drop() error
	// Pass lets time pass.
	Pass(d time.Duration) error
	// Settle waits until the peer has nothing more to say, and returns what it said since it was
	// last asked (*DeltaDiscoveryRequest or *DiscoveryRequest), and what it has.
	Settle() ([]proto.Message, Summary, error)
}

// Play plays the script and returns it with what is seen of the peer now.
func (s *Script) Play(p Peer) (*Script, error) {
	played := &Script{Name: s.Name, Protocol: s.Protocol, Drain: s.Drain}
	nonces, place := [numKinds]int{}, 0
	for _, st := range s.Steps {
		st.Seen = nil
		var err error
		switch st.Op {
		case "send":
			nonces[st.Kind]++
			place++
			nonce := fmt.Sprintf("%c%d", st.Kind.letter(), nonces[st.Kind])
			err = p.Deliver(st.response(s.Protocol, nonce, fmt.Sprintf("v%d", place)))
		case "drop":
			nonces = [numKinds]int{}
			err = p.Drop()
		case "pass":
			err = p.Pass(st.Pause)
		case "settle":
			var said []proto.Message
			var has Summary
			if said, has, err = p.Settle(); err == nil {
				st.Seen = append(describeAll(said), has.lines()...)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("script %s, %q: %w", s.Name, st.Line, err)
		}
		played.Steps = append(played.Steps, st)
	}
	return played, nil
}

func (st Step) response(p Protocol, nonce, version string) proto.Message {
	if p == StateOfTheWorld {
		m := &discoveryv3.DiscoveryResponse{TypeUrl: st.Kind.URL(), Nonce: nonce, VersionInfo: version}
		for _, r := range st.Resources {
			m.Resources = append(m.Resources, &anypb.Any{TypeUrl: st.Kind.URL(), Value: r.Body()})
		}
		return m
	}
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: st.Kind.URL(), Nonce: nonce, SystemVersionInfo: version}
	for _, name := range st.Removed {
		m.RemovedResources = append(m.RemovedResources, wireName(st.Kind, name))
	}
	for _, r := range st.Resources {
		m.Resources = append(m.Resources, &discoveryv3.Resource{
			Name:     wireName(r.Kind, r.Name),
			Version:  r.Version,
			Resource: &anypb.Any{TypeUrl: st.Kind.URL(), Value: r.Body()},
		})
	}
	return m
}
