package redisproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
)

// BinaryEnv names the environment variable that overrides the search on PATH.
const BinaryEnv = "HOLDFAST_REDIS_SERVER"

// ErrNoServer is returned when no server binary is found.
var ErrNoServer = errors.New("redisproc: no redis-server or valkey-server found")

// Binary returns the path of the server binary: the one that BinaryEnv names, else
// the first of redis-server and valkey-server on PATH.
//
// Errors: ErrNoServer.
func Binary() (string, error) {
	if name := os.Getenv(BinaryEnv); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%w: %s is set: %w", ErrNoServer, BinaryEnv, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoServer
}

// VersionOf returns the version that a server binary reports, such as "7.0.15".
// An empty name means the binary that [Binary] finds.
func VersionOf(binary string) (string, error) {
	if binary == "" {
		path, err := Binary()
		if err != nil {
			return "", err
		}
		binary = path
	}
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("redisproc: %s --version: %w", binary, err)
	}
	found := regexp.MustCompile(`\bv=(\S+)`).FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("redisproc: %s --version says %q", binary, out)
	}
	return string(found[1]), nil
}
