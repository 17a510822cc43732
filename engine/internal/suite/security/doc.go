// Package security has passwords and TLS, and servers and keys that mean ill.
//
// There are tests only.
package security
