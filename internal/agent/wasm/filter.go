package wasm

import (
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Messages are read and changed where they lie: the types of Envoy would make each agent larger by
// megabytes.

// Types of configurations.
const (
	typePrefix   = "type.googleapis.com/"
	httpWasm     = typePrefix + "envoy.extensions.filters.http.wasm.v3.Wasm"
	networkWasm  = typePrefix + "envoy.extensions.filters.network.wasm.v3.Wasm"
	httpRBAC     = typePrefix + "envoy.extensions.filters.http.rbac.v3.RBAC"
	networkRBAC  = typePrefix + "envoy.extensions.filters.network.rbac.v3.RBAC"
	failOpen     = 3 // FailurePolicy
	nanosInMilli = 1_000_000
)

// Numbers of fields, by message.
const (
	// envoy.config.core.v3.TypedExtensionConfig, and google.protobuf.Any in it
	extensionName, extensionConfig = 1, 2
	anyType, anyValue              = 1, 2
	// envoy.extensions.filters.….wasm.v3.Wasm
	wasmPlugin = 1
	// envoy.extensions.wasm.v3.PluginConfig
	pluginVM, pluginOpen, pluginPolicy = 3, 5, 7
	// envoy.extensions.wasm.v3.VmConfig
	vmCode, vmVariables = 3, 7
	// envoy.extensions.wasm.v3.EnvironmentVariables, and an entry of its map
	variablesValues    = 2
	entryKey, entryVal = 1, 2
	// envoy.config.core.v3.AsyncDataSource, DataSource, RemoteDataSource, HttpUri
	codeLocal, codeRemote   = 1, 2
	localFile               = 1
	remoteURI, remoteSum    = 1, 2
	uriText, uriTimeout     = 1, 3
	durationSec, durationNS = 1, 2
	// envoy.extensions.filters.….rbac.v3.RBAC
	rbacRules, rbacHTTPPrefix, rbacPrefix = 1, 6, 3
)

var errMalformed = errors.New("the configuration is not valid protobuf")

// field is a field of a message.
type field struct {
	number protowire.Number
	whole  []byte // with its head
	bytes  []byte // of a field of bytes
	isText bool   // it is a field of bytes
	value  uint64 // of a varint
}

// fieldsOf returns the fields of a message.
func fieldsOf(b []byte) (all []field, err error) {
	for len(b) > 0 {
		number, kind, head := protowire.ConsumeTag(b)
		if head < 0 {
			return nil, errMalformed
		}
		n := protowire.ConsumeFieldValue(number, kind, b[head:])
		if n < 0 {
			return nil, errMalformed
		}
		f := field{number: number, whole: b[:head+n]}
		switch kind {
		case protowire.BytesType:
			f.isText = true
			f.bytes, _ = protowire.ConsumeBytes(b[head:])
		case protowire.VarintType:
			f.value, _ = protowire.ConsumeVarint(b[head:])
		default:
		}
		all, b = append(all, f), b[head+n:]
	}
	return all, nil
}

// reader reads messages. Its error is that of the first one that cannot be read.
type reader struct{ err error }

// last returns the last field of a number, and whether there is one.
func (r *reader) last(b []byte, number protowire.Number) (found field, has bool) {
	all, err := fieldsOf(b)
	if err != nil && r.err == nil {
		r.err = err
	}
	for _, f := range all {
		if f.number == number {
			found, has = f, true
		}
	}
	return found, has
}

// at returns the message or text at a path.
func (r *reader) at(b []byte, path ...protowire.Number) []byte {
	for _, number := range path {
		f, _ := r.last(b, number)
		b = f.bytes
	}
	return b
}

// filter is a filter whose module is to be fetched.
type filter struct {
	resource      []byte // a TypedExtensionConfig
	name          string
	plugin, vm    []byte
	remote        []byte
	ofConnections bool
}

// read reads a resource; nil for one that has no module to be fetched.
func read(resource []byte) (*filter, error) {
	r := &reader{}
	typ := string(r.at(resource, extensionConfig, anyType))
	if typ != httpWasm && typ != networkWasm {
		return nil, r.err
	}
	f := &filter{
		resource: resource, name: string(r.at(resource, extensionName)), ofConnections: typ == networkWasm,
		plugin: r.at(resource, extensionConfig, anyValue, wasmPlugin),
	}
	f.vm = r.at(f.plugin, pluginVM)
	remote, has := r.last(r.at(f.vm, vmCode), codeRemote)
	f.remote = remote.bytes
	if r.err != nil || !has {
		return nil, r.err
	}
	return f, nil
}

// fileIn returns the name of a filter, and the file that it names; empty if it names none.
func fileIn(resource []byte) (name, path string) {
	r := &reader{}
	name = string(r.at(resource, extensionName))
	if typ := string(r.at(resource, extensionConfig, anyType)); typ != httpWasm && typ != networkWasm {
		return name, ""
	}
	return name, string(r.at(resource, extensionConfig, anyValue, wasmPlugin, pluginVM, vmCode, codeLocal, localFile))
}

// request returns what the filter asks for, and whether its pull secret is missing.
func (f *filter) request() (q Request, lacksSecret bool) {
	r := &reader{}
	q = Request{
		URL: string(r.at(f.remote, remoteURI, uriText)), Checksum: string(r.at(f.remote, remoteSum)), Resource: f.name,
		Timeout: defaultTimeout,
	}
	if q.Checksum == anyModule {
		q.Checksum = ""
	}
	limit := r.at(f.remote, remoteURI, uriTimeout)
	seconds, _ := r.last(limit, durationSec)
	nanos, _ := r.last(limit, durationNS)
	milli := seconds.value*1000 + nanos.value/nanosInMilli
	if milli > 0 && milli <= maxTimeout {
		q.Timeout = time.Duration(milli) * time.Millisecond //nolint:gosec // it is at most maxTimeout
	}
	variables, err := fieldsOf(r.at(f.vm, vmVariables))
	if err != nil {
		return q, false
	}
	for _, v := range variables {
		if v.number != variablesValues {
			continue
		}
		value := r.at(v.bytes, entryVal)
		switch string(r.at(v.bytes, entryKey)) {
		case policyVariable:
			q.Policy = PullPolicy(value)
		case versionVariable:
			q.Version = string(value)
		case secretVariable:
			q.Secret, lacksSecret = value, len(value) == 0
		}
	}
	return q, lacksSecret
}

// withFile returns the resource with the file of the module, and without the variables that are for
// the agent alone.
func (f *filter) withFile(path string) ([]byte, error) {
	code := message(codeLocal, message(localFile, []byte(path)))
	return replaced(f.resource, func(vm []byte) ([]byte, error) {
		fields, err := fieldsOf(vm)
		var out []byte
		for _, of := range fields {
			switch of.number {
			case vmCode:
			case vmVariables:
				if left := hide(of.bytes); len(left) > 0 {
					out = append(out, message(vmVariables, left)...)
				}
			default:
				out = append(out, of.whole...)
			}
		}
		return append(out, message(vmCode, code)...), err
	}, extensionConfig, anyValue, wasmPlugin, pluginVM)
}

// hide takes out the variables that are for the agent alone.
func hide(variables []byte) (left []byte) {
	all, _ := fieldsOf(variables) // read before
	r := &reader{}
	for _, v := range all {
		if v.number == variablesValues && strings.HasPrefix(string(r.at(v.bytes, entryKey)), agentVariables) {
			continue
		}
		left = append(left, v.whole...)
	}
	return left
}

// fallback returns the resource with what stands for the filter without its module: a filter that
// accepts or refuses all.
func (f *filter) fallback() ([]byte, error) {
	prefix, rules := "wasm-default-allow", []byte(nil)
	if !f.opens() {
		prefix, rules = "wasm-default-deny", message(rbacRules, nil) // rules that allow nobody
	}
	typ, prefixField := httpRBAC, protowire.Number(rbacHTTPPrefix)
	if f.ofConnections {
		typ, prefixField = networkRBAC, rbacPrefix
	}
	config := append(rules, message(prefixField, []byte(prefix))...)
	packed := append(message(anyType, []byte(typ)), message(anyValue, config)...)
	return replaced(f.resource, func([]byte) ([]byte, error) { return packed, nil }, extensionConfig)
}

// opens reports whether all pass without the module.
func (f *filter) opens() bool {
	r := &reader{}
	policy, _ := r.last(f.plugin, pluginPolicy)
	if policy.value != 0 {
		return policy.value == failOpen
	}
	before, _ := r.last(f.plugin, pluginOpen) // of older control planes
	return before.value != 0
}

// message is a field of bytes.
func message(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// replaced returns a message in which what stands at a path is replaced.
func replaced(b []byte, by func([]byte) ([]byte, error), path ...protowire.Number) ([]byte, error) {
	if len(path) == 0 {
		return by(b)
	}
	fields, err := fieldsOf(b)
	var out []byte
	for _, f := range fields {
		if f.number != path[0] || !f.isText {
			out = append(out, f.whole...)
			continue
		}
		inner, innerErr := replaced(f.bytes, by, path[1:]...)
		err = errors.Join(err, innerErr)
		out = append(out, message(f.number, inner)...)
	}
	return out, err
}
