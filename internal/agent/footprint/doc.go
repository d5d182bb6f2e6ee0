// Package footprint gives memory back that only the start of the agent has used. Initialization and
// the first handshakes touch nearly all of the program, and what the kernel has mapped once counts
// as resident until it is short of memory. The agent runs in every Pod, so it does not wait for
// that.
//
// It may import nothing of the product.
package footprint
