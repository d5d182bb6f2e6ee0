package session_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestScripts replays conversations. A script in testdata is a sequence of blocks: lines of
// commands, `----`, what they put out, an empty line. Lines that begin with # are comments.
//
//	new delta|sotw [vhds] [leds=ENDPOINTS] [hold=10s] [drain=45s] [max=BYTES] [distrust=cds:a,b]
//	    begins a stream, without State or subscription. With vhds and leds the client speaks these,
//	    LEDS for clusters with that many endpoints or more.
//	update GENERATION [cds=a:1,b:1] [eds=…] [own=ADDRESS]
//	    A type that is not mentioned stays the same. Resources are noted as in resource_test.go.
//	request TYPE [+a] [-b] [init=a:1,b:?]
//	    delta; ? is a version of another control plane
//	request TYPE [names=a,b] [nonce=N] [version=V]
//	    state of the world; the nonce is the latest response's unless given
//	ack NONCE [+a] [-b] [names=a,b]
//	    The names are those of the last request unless given.
//	nack NONCE [+a] [-b] MESSAGE
//	tick DURATION
//	    lets time pass, then calls Tick
//	seal
//	    The stream is about to end.
//	status, sync
func TestScripts(t *testing.T) { golden.Scripts(t, "*.txt", replay) }

// replay runs a script and returns it with the output that it gives now.
func replay(t *testing.T, script string) string {
	t.Helper()
	s := &scripted{resources: newResources()}
	var out, block, result strings.Builder
	expected := false
	flush := func() {
		if block.Len() == 0 {
			return
		}
		if result.Len() == 0 {
			result.WriteString("nothing\n")
		}
		fmt.Fprintf(&out, "%s----\n%s\n", block.String(), result.String())
		block.Reset()
		result.Reset()
	}
	for _, line := range strings.Split(script, "\n") {
		switch {
		case line == "":
			flush()
			expected = false
		case line == "----":
			expected = true
		case expected:
		case strings.HasPrefix(line, "#"):
			flush()
			if block.Len() == 0 && out.Len() > 0 && !strings.HasSuffix(out.String(), "\n\n") &&
				!strings.HasPrefix(lastLine(out.String()), "#") {
				out.WriteString("\n")
			}
			out.WriteString(line + "\n")
		default:
			block.WriteString(line + "\n")
			result.WriteString(s.run(t, strings.Fields(line)))
		}
	}
	flush()
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	return lines[len(lines)-1]
}

// scripted is a session and what the script language needs around it.
type scripted struct {
	resources *resources
	session   *session.Session
	protocol  session.Protocol
	now       time.Time
	sets      [resource.NumTypes]string // as in the script
	names     map[string][]string       // state of the world: by type, of the last request
	last      map[string]string         // nonce of the latest response, by type
	versions  map[string]string         // by nonce
	accepted  map[string]string         // version of the latest ACK, by type
	// collection is what the client asks for that was sent the latest head.
	collection string
}

func (s *scripted) run(t *testing.T, f []string) string {
	t.Helper()
	switch f[0] {
	case "new":
		s.open(t, f[1:])
		return ""
	case "update":
		return s.show(s.session.Update(s.state(t, f[1:]), s.ownOf(f[1:]), s.now))
	case "request":
		nonce := ""
		if s.protocol == session.StateOfTheWorld {
			nonce = s.last[f[1]]
		}
		return s.show(s.session.Request(s.request(t, f[1], nonce, f[2:]), s.now))
	case "ack":
		require.Contains(t, s.versions, f[1], "no response had this nonce")
		s.accepted[typeOfNonce(f[1])] = s.versions[f[1]]
		return s.show(s.session.Request(s.request(t, typeOfNonce(f[1]), f[1], f[2:]), s.now))
	case "nack":
		return s.nack(t, f[1], f[2:])
	case "tick":
		d, err := time.ParseDuration(f[1])
		require.NoError(t, err)
		s.now = s.now.Add(d)
		return s.show(s.session.Tick(s.now))
	case "seal":
		return s.show(s.session.Seal(s.now))
	case "status":
		return s.status()
	case "sync":
		return s.sync()
	}
	t.Fatalf("no such command: %v", f)
	return ""
}

// nack refuses a response; arguments of a request may stand before the message.
func (s *scripted) nack(t *testing.T, nonce string, f []string) string {
	t.Helper()
	require.Contains(t, s.versions, nonce, "no response had this nonce")
	words := slices.IndexFunc(f, func(a string) bool { return a[0] != '+' && a[0] != '-' })
	req := s.request(t, typeOfNonce(nonce), nonce, f[:words])
	req.Nack = &session.Nack{Code: 13, Message: strings.Join(f[words:], " ")}
	return s.show(s.session.Request(req, s.now))
}

func (s *scripted) open(t *testing.T, args []string) {
	t.Helper()
	s.now = time.Unix(1000, 0)
	s.last, s.versions, s.accepted = map[string]string{}, map[string]string{}, map[string]string{}
	s.names, s.sets = map[string][]string{}, [resource.NumTypes]string{}
	o := session.Options{Differ: resource.NewDiffer(100)}
	if args[0] == "sotw" {
		o.Protocol = session.StateOfTheWorld
	}
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		var err error
		switch key {
		case "vhds":
			o.VirtualHosts = true
		case "leds":
			o.Collections, err = strconv.Atoi(value)
		case "hold":
			o.Hold, err = time.ParseDuration(value)
		case "drain":
			o.Drain, err = time.ParseDuration(value)
		case "max":
			o.MaxBytes, err = strconv.Atoi(value)
		case "distrust":
			typ, names, _ := strings.Cut(value, ":")
			o.Distrust[typeOf(t, typ)] = setOf(strings.Split(names, ","))
		default:
			t.Fatalf("no such option: %s", a)
		}
		require.NoError(t, err)
	}
	s.protocol = o.Protocol
	s.session = session.New(o)
}

func (s *scripted) state(t *testing.T, args []string) resource.State {
	t.Helper()
	generation, err := strconv.ParseUint(args[0], 10, 64)
	require.NoError(t, err)
	for _, a := range args[1:] {
		if key, value, _ := strings.Cut(a, "="); key != "own" && key != "trusted" {
			s.sets[typeOf(t, key)] = value
		}
	}
	st := resource.NewState(generation)
	for typ, list := range s.sets {
		st = st.With(resource.Type(typ), s.resources.set(split(list)))
	}
	return st
}

func (s *scripted) ownOf(args []string) resource.Overlay {
	own := s.session.Overlay()
	if s.session.State().IsNone() {
		own.Trusted = true
	}
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "own="); ok {
			own.Pod = v
		}
		if v, ok := strings.CutPrefix(a, "trusted="); ok {
			own.Trusted = v == "yes"
		}
	}
	return own
}

func (s *scripted) request(t *testing.T, typ, nonce string, args []string) session.Request {
	t.Helper()
	req := session.Request{TypeURL: typ, Nonce: nonce}
	if !strings.Contains(typ, "/") {
		req.TypeURL = typeOf(t, typ).URL()
	}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		switch {
		case a == "+members":
			req.Subscribe = append(req.Subscribe, s.collectionOf(t))
		case a[0] == '+':
			req.Subscribe = append(req.Subscribe, a[1:])
		case a[0] == '-':
			req.Unsubscribe = append(req.Unsubscribe, a[1:])
		case key == "init":
			req.InitialVersions = s.resources.versions(split(value))
		case key == "names":
			s.names[typ] = split(value)
		case key == "nonce":
			req.Nonce = value
		case key == "version":
			s.accepted[typ] = value
		default:
			t.Fatalf("no such argument: %s", a)
		}
	}
	if s.protocol == session.StateOfTheWorld {
		req.Names, req.VersionInfo = s.names[typ], s.accepted[typ]
	}
	return req
}

// collectionOf is what a client asks for that has the head which was sent last.
func (s *scripted) collectionOf(t *testing.T) string {
	t.Helper()
	require.NotEmpty(t, s.collection, "no head was sent")
	return s.collection
}

func (s *scripted) show(responses []session.Response) string {
	var b strings.Builder
	for _, r := range responses {
		if r.Unknown != "" {
			fmt.Fprintf(&b, "< %s %s\n", r.Unknown, r.Nonce)
			continue
		}
		s.last[r.Type.String()], s.versions[r.Nonce] = r.Nonce, r.Version
		for _, u := range r.Upserts {
			if _, name, ok := strings.Cut(string(u.Body()), collection); ok && r.Type == resource.Endpoint {
				s.collection = collection + name
			}
		}
		upserts := r.Upserts
		if r.Type == resource.LbEndpoint { // members are in the order of their chunks
			upserts = slices.SortedFunc(slices.Values(upserts), func(a, b *resource.Resource) int {
				return strings.Compare(a.Name(), b.Name())
			})
		}
		fmt.Fprintf(&b, "< %s %s g%d [%s]", r.Type, r.Nonce, r.Generation, strings.Join(notesOf(upserts), " "))
		if len(r.Removed) > 0 {
			fmt.Fprintf(&b, " -[%s]", strings.Join(shortened(r.Removed), " "))
		}
		if r.Shared != nil {
			b.WriteString(" shared")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shortened are names without what those of all collections have in common.
func shortened(names []string) []string {
	var out []string
	for _, n := range names {
		if strings.HasPrefix(n, collection) {
			n = n[strings.LastIndexByte(n, '/')+1:]
		}
		out = append(out, n)
	}
	return out
}

func (s *scripted) status() string {
	var b strings.Builder
	for typ, st := range s.session.Status() {
		if !st.Subscribed {
			continue
		}
		fmt.Fprintf(&b, "%s sent=%s acked=%s generation=%d resources=%d",
			resource.Type(typ), st.Sent, st.Acked, st.Generation, st.Resources)
		if len(st.Quarantined) > 0 {
			fmt.Fprintf(&b, " quarantined=%s", strings.Join(st.Quarantined, ","))
		}
		if len(st.Withheld) > 0 {
			fmt.Fprintf(&b, " withheld=%s", strings.Join(st.Withheld, ","))
		}
		if st.Nack != "" {
			fmt.Fprintf(&b, " nack=%q", st.Nack)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (s *scripted) sync() string {
	next := "never"
	if at, ok := s.session.NextTick(); ok {
		next = at.Sub(s.now).String()
	}
	expired := ""
	if n := s.session.ExpiredNonces(); n > 0 {
		expired = fmt.Sprintf(" expired=%d", n)
	}
	answered := ""
	if g := s.session.AnsweredGeneration(); g != s.session.AckedGeneration() {
		answered = fmt.Sprintf(" answered=%d", g)
	}
	return fmt.Sprintf("sync=%t acked=%d%s exceptions=%d tick=%s%s\n",
		s.session.InSync(), s.session.AckedGeneration(), answered, s.session.Exceptions(), next, expired)
}

func typeOf(t *testing.T, short string) resource.Type {
	t.Helper()
	for typ := range resource.NumTypes {
		if typ.String() == short {
			return typ
		}
	}
	t.Fatalf("no such type: %q", short)
	return 0
}

func typeOfNonce(nonce string) string {
	return map[byte]string{
		'f': "ecds", 'n': "nds", 'c': "cds", 'e': "eds", 'm': "leds", 'l': "lds", 'r': "rds", 's': "sds", 'v': "vhds",
	}[nonce[0]]
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func setOf(names []string) map[string]struct{} {
	m := map[string]struct{}{}
	for _, n := range names {
		m[n] = struct{}{}
	}
	return m
}
