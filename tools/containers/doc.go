// Package containers holds no code, only a test: the compose files and Dockerfiles of the repository are read with the
// parsers that docker itself uses, because no container engine runs where the tests do.
package containers
