package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServePprof(t *testing.T) {
	var said bytes.Buffer
	stop, err := servePprof("127.0.0.1:0", &said)
	require.NoError(t, err)
	defer stop()
	url := strings.Fields(said.String())
	reply, err := http.Get(url[len(url)-1])
	require.NoError(t, err)
	require.NoError(t, reply.Body.Close())
	require.Equal(t, http.StatusOK, reply.StatusCode)
	http.DefaultClient.CloseIdleConnections()
}
