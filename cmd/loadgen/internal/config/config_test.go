package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockNameHas24Bytes(t *testing.T) {
	require.Len(t, (&Config{Prefix: "lg-" + RandomID()}).LockName('h', 123456), 24)
}
