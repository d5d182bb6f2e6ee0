package features

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// datadogSpan is a span as the agent's API of version 0.4 has it.
type datadogSpan struct {
	TraceID  uint64 `json:"trace_id"`
	SpanID   uint64 `json:"span_id"`
	ParentID uint64 `json:"parent_id"`
	Service  string
	Resource string
	Meta     map[string]string
	Metrics  map[string]float64
}

// priority is the name of the agent's measure of whether to keep a trace: more than 0 if so.
const priority = "_sampling_priority_v1"

// spanOf names ids as the header traceparent does. The upper half of the id of a trace is in a tag,
// and a span is on the side that its upstream cluster is for.
func (d datadogSpan) spanOf() span {
	kind := "CLIENT"
	if strings.HasPrefix(d.Meta["upstream_cluster"], "inbound|") {
		kind = "SERVER"
	}
	if p, ok := d.Metrics[priority]; ok {
		d.Meta[priority] = fmt.Sprint(p)
	}
	return span{
		trace: d.Meta["_dd.p.tid"] + fmt.Sprintf("%016x", d.TraceID), id: fmt.Sprintf("%016x", d.SpanID),
		parent: fmt.Sprintf("%016x", d.ParentID), kind: kind, name: d.Resource, service: d.Service, tags: d.Meta,
	}
}

// datadogAgent is an agent of Datadog of which only the way in for traces is there.
func datadogAgent(t *testing.T) (s *spans, port int) {
	t.Helper()
	s = &spans{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v0.4/traces" {
			http.NotFound(w, r) // of telemetry about the tracer, and of its configuration
			return
		}
		var traces [][]datadogSpan
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = unmarshalMsgpack(body, &traces)
		}
		if err != nil || strconv.Itoa(len(traces)) != r.Header.Get("x-datadog-trace-count") {
			http.Error(w, fmt.Sprintf("want traces in MessagePack, and their number: %v", err), http.StatusBadRequest)
			return
		}
		for _, one := range traces {
			for _, d := range one {
				s.add(d.spanOf())
			}
		}
		_, _ = io.WriteString(w, `{"rate_by_service": {}}`)
	}))
	t.Cleanup(server.Close)
	return s, server.Listener.Addr().(*net.TCPAddr).Port
}

// TestSpansReachDatadog has an agent of Datadog as receiver. It gets all requests; those that are
// not chosen have a negative priority.
func TestSpansReachDatadog(t *testing.T) {
	s, port := datadogAgent(t)
	m := livemesh.Start(t, bookinfo(t)+withTracing(fmt.Sprintf("datadog: {service: datadog.test, port: %d}", port))+
		livemesh.File("datadog.yaml", httpEntry("datadog", port)))
	m.RequireNoProblems()
	trace := page(m, s, w3c, wholePage)
	for _, one := range s.of(trace) {
		require.Equal(t, one.tags["istio.canonical_service"]+".default", one.service)
		require.Equal(t, "200", one.tags["http.status_code"])
		if one.kind == "CLIENT" {
			require.Regexp(t, `^(productpage|details|reviews|ratings)\.default\.svc\.cluster\.local/\*$`, one.name)
		}
	}
	m.Run("no request is sampled", telemetryFor("none", `
tracing: [{randomSamplingPercentage: 0}]
`), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 200, m.Client("client-v1").Get("http://details:9080/details/404"))
		var found []span
		m.Await("its span", func() bool {
			found = s.find(func(one span) bool { return one.called("/details/404") && one.kind == "CLIENT" })
			return len(found) == 1
		})
		require.Equal(t, "-1", found[0].tags[priority])
	})
}

// unmarshalMsgpack decodes MessagePack, by way of JSON.
func unmarshalMsgpack(in []byte, out any) error {
	value, err := (&msgpack{bytes.NewReader(in)}).value()
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// msgpack reads values of MessagePack, with the types that JSON has.
type msgpack struct{ in *bytes.Reader }

// value reads one value of any type. The first byte holds the type, and small values or lengths.
func (m *msgpack) value() (any, error) {
	first, err := m.in.ReadByte()
	switch {
	case err != nil:
		return nil, err
	case first < 0x80:
		return first, nil
	case first < 0x90:
		return m.object(uint64(first & 0x0f))
	case first < 0xa0:
		return m.array(uint64(first & 0x0f))
	case first < 0xc0:
		return m.text(uint64(first & 0x1f))
	case first >= 0xe0:
		return int8(first), nil
	case first == 0xc0:
		return nil, nil
	case first == 0xc2, first == 0xc3:
		return first == 0xc3, nil
	}
	return m.sized(first)
}

// sized reads a value whose first byte is followed by a number or a length of 1, 2, 4 or 8 bytes.
func (m *msgpack) sized(first byte) (any, error) {
	kinds := []struct {
		from, to byte
		width    int // of the first; each next one's is twice that of the one before
		read     func(n uint64, width int) (any, error)
	}{
		{0xca, 0xcb, 4, func(n uint64, width int) (any, error) {
			if width == 4 {
				return math.Float32frombits(uint32(n)), nil
			}
			return math.Float64frombits(n), nil
		}},
		{0xcc, 0xcf, 1, func(n uint64, _ int) (any, error) { return n, nil }},
		{0xd0, 0xd3, 1, func(n uint64, width int) (any, error) {
			unused := 64 - 8*width
			return int64(n<<unused) >> unused, nil
		}},
		{0xd9, 0xdb, 1, func(n uint64, _ int) (any, error) { return m.text(n) }},
		{0xdc, 0xdd, 2, func(n uint64, _ int) (any, error) { return m.array(n) }},
		{0xde, 0xdf, 2, func(n uint64, _ int) (any, error) { return m.object(n) }},
	}
	for _, k := range kinds {
		if first >= k.from && first <= k.to {
			width := k.width << (first - k.from)
			var number [8]byte
			if _, err := io.ReadFull(m.in, number[8-width:]); err != nil {
				return nil, err
			}
			return k.read(binary.BigEndian.Uint64(number[:]), width)
		}
	}
	return nil, fmt.Errorf("type %#x of MessagePack", first)
}

func (m *msgpack) text(length uint64) (any, error) {
	if length > uint64(m.in.Len()) {
		return nil, io.ErrUnexpectedEOF
	}
	text := make([]byte, length)
	_, err := io.ReadFull(m.in, text)
	return string(text), err
}

func (m *msgpack) array(length uint64) (any, error) {
	all := []any{}
	for range length {
		value, err := m.value()
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

func (m *msgpack) object(length uint64) (any, error) {
	all := map[string]any{}
	for range length {
		key, err := m.value()
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("key %v is no text", key)
		}
		if all[name], err = m.value(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// TestMsgpackIsRead keeps the agent honest: a span of which all types of values are known.
func TestMsgpackIsRead(t *testing.T) {
	var got any
	in := "\x86\xa1a\x92\x05\xe0\xd9\x01b\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1c\xd1\xff\xfe" +
		"\xa1d\xcb\x3f\xe0\x00\x00\x00\x00\x00\x00\xa1e\xc0\xda\x00\x01f\xde\x00\x01\xa1g\xc3"
	require.NoError(t, unmarshalMsgpack([]byte(in), &got))
	text, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"a": [5, -32], "b": 18446744073709551615, "c": -2, "d": 0.5, "e": null, "f": {"g": true}}`,
		string(text))
	for i := range in {
		require.Error(t, unmarshalMsgpack([]byte(in[:i]), &got), "it is cut off")
	}
}
