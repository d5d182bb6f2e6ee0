// Package footprint gives memory back that only the start of a process has used. Initialization
// touches nearly all of the program, and what the kernel has mapped once counts as resident until
// it is short of memory. Agents and control planes do not wait for that.
//
// It may import nothing of the product.
package footprint
