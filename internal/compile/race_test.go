//go:build race

package compile

// raced tells that the race detector is on: it slows down sevenfold what one goroutine does alone,
// in which it finds nothing. What is left out for it runs without it in `make test`.
const raced = true
