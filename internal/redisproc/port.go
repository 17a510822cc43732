package redisproc

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn from [firstPort, firstPort+portRange). They, and the bus ports
// of cluster nodes above them, lie below the ports that kernels give to outgoing
// connections: a server that is down for a moment does not lose its port to one.
const (
	firstPort  = 12000
	portRange  = 10000
	busOffset  = 10000
	portsTried = 100
)

// FreePort returns a port of 127.0.0.1 that is free now, as is the cluster bus
// port 10000 above it. Somebody else may take it before it is used.
func FreePort() (int, error) {
	for range portsTried {
		port := firstPort + rand.IntN(portRange)
		if free(port) && free(port+busOffset) {
			return port, nil
		}
	}
	return 0, errors.New("redisproc: no free port found")
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
