//go:build race

package compile

// raced tells that the race detector is on: it slows down sevenfold what one goroutine does alone,
// in which it finds nothing. `make test` runs what is cut short for it once more without.
const raced = true
