package world

// Permutations are for tests in the package outside.
var Permutations = permutations
