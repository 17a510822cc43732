package pubsub

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

type deaf struct{}

func (deaf) Wake(WakeCause, string) {}

func BenchmarkMuxMessage(b *testing.B) {
	m := New(Config{Dedicate: func(context.Context) (rueidis.DedicatedClient, func(), error) {
		return nil, nil, errors.New("none")
	}})
	defer m.Close()
	_, err := m.Subscribe("ch", deaf{})
	require.NoError(b, err)
	c := &subConn{}
	b.ReportAllocs()
	for b.Loop() {
		m.onMessage(c, rueidis.PubSubMessage{Channel: "ch", Message: "0"})
	}
}
