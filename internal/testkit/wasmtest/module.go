// Package wasmtest makes Wasm modules for tests: plugins of Envoy, byte by byte, so that no
// compiler is needed.
//
// It imports nothing of Lateen.
package wasmtest

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The ABI of plugins: https://github.com/proxy-wasm/spec/tree/main/abi-versions/v0.2.1
const (
	abi             = "proxy_abi_version_0_2_1"
	onHeaders       = "proxy_on_request_headers"
	addHeader       = "proxy_add_header_map_value"
	sendResponse    = "proxy_send_local_response"
	requestHeaders  = 0
	goOn, stop      = 0, 1
	textAt, scratch = 1024, 4096
)

// Opcodes and types.
const (
	i32      = 0x7f
	function = 0x60
	call     = 0x10
	drop     = 0x1a
	constant = 0x41
	end      = 0x0b
)

// AddsHeader returns a plugin that adds a header to each request.
func AddsHeader(name, value string) []byte {
	text := name + value
	return plugin(addHeader, 5, text, slices.Concat(
		numbers(requestHeaders, textAt, len(name), textAt+len(name), len(value)), []byte{call, 0, drop}, numbers(goOn),
	))
}

// Answers returns a plugin that answers each request itself.
func Answers(status int, body string) []byte {
	return plugin(sendResponse, 8, body, slices.Concat(
		numbers(status, textAt, 0, textAt, len(body), textAt, 0, -1), []byte{call, 0, drop}, numbers(stop),
	))
}

// plugin is a module that imports one function of some parameters, and whose code runs on each
// request.
func plugin(imported string, parameters int, text string, code []byte) []byte {
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, list( // types
			[]byte{function, 0, 0},
			[]byte{function, 1, i32, 1, i32},
			[]byte{function, 3, i32, i32, i32, 1, i32},
			slices.Concat([]byte{function}, list(slices.Repeat([][]byte{{i32}}, parameters)...), []byte{1, i32}),
		)),
		section(2, list(slices.Concat(name("env"), name(imported), []byte{0, 3}))),
		section(3, list([]byte{0}, []byte{1}, []byte{2})), // functions by type
		section(5, list([]byte{0, 1})),                    // memory: a page
		section(7, list( // exports; function 0 is the imported one
			slices.Concat(name("memory"), []byte{2, 0}),
			slices.Concat(name(abi), []byte{0, 1}),
			slices.Concat(name("malloc"), []byte{0, 2}),
			slices.Concat(name(onHeaders), []byte{0, 3}),
		)),
		section(10, list(body(nil), body(numbers(scratch)), body(code))),
		section(11, list(slices.Concat([]byte{0}, numbers(textAt), []byte{end}, name(text)))),
	)
}

func section(id byte, content []byte) []byte { return append([]byte{id}, name(string(content))...) }

// list is a vector: its length, and its items.
func list(items ...[]byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(len(items))), bytes.Join(items, nil)...)
}

// name is a vector of bytes.
func name(text string) []byte { return append(binary.AppendUvarint(nil, uint64(len(text))), text...) }

// body is a function without local variables.
func body(code []byte) []byte { return name(string(slices.Concat([]byte{0}, code, []byte{end}))) }

// numbers pushes numbers.
func numbers(all ...int) (code []byte) {
	for _, n := range all {
		code = append(code, constant)
		for { // signed LEB128
			b, rest := byte(n&0x7f), n>>7
			if rest == 0 && b&0x40 == 0 || rest == -1 && b&0x40 != 0 {
				code = append(code, b)
				break
			}
			code, n = append(code, b|0x80), rest
		}
	}
	return code
}
