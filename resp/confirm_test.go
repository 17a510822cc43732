package resp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/internal/faultproxy"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
)

// acked asks for a grant that so many replicas have seen.
func acked(key string, replicas int, sink Sink) *Op {
	op := nodeOp(OpAcquire, key, sink)
	op.Ack = &Ack{Replicas: replicas, Timeout: nodeLong / 2}
	return op
}

// blocks waits until the server shows a client in WAIT.
func blocks(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, err := s.InfoField("clients", "blocked_clients")
		return err == nil && n == "1"
	}, nodeLong, time.Millisecond)
}

// In one batch one wants one replica and the other two: who wants one is answered as soon as one has seen it, whatever
// the other waits for.
func TestWhoWantsFewerReplicasIsAnsweredFirst(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 2, 0)
	p := faultproxy.Run(t, s.Master.Addr())
	n := nodeOpen(t, p.Addr(), Options{Lanes: 1})
	a := newNodeAnswers()
	s.Replicas[1].Pause()
	hold := p.Hold(faultproxy.Command("EVALSHA"), -1)
	nodeSubmit(t, n, acked("flying", 1, a))
	<-hold.C()
	two := nodeSubmit(t, n, acked("two", 2, a))
	one := nodeSubmit(t, n, acked("one", 1, a))
	p.ReleaseCommands()
	got := a.await(t, one)
	require.Equal(t, CodeGranted, got.Code)
	require.Equal(t, int32(1), got.ReplicaAcks)
	require.Equal(t, 2, a.count(), "who wants two still waits")
	s.Replicas[1].Resume()
	got = a.await(t, two)
	require.Equal(t, CodeGranted, got.Code)
	require.Equal(t, int32(2), got.ReplicaAcks)
}

// A master that was demoted while replicas were waited for says so in the words of a refusal. But the grant stands in its
// memory, and the new master may have seen it, or not.
func TestAGrantOfAMasterThatWasDemotedMeanwhileIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := redistest.RunSentinel(t, 1, 0)
	n := nodeOpen(t, s.Master.Addr(), Options{Lanes: 1})
	a := newNodeAnswers()
	s.Replicas[0].Pause()
	op := nodeSubmit(t, n, acked("name", 1, a))
	blocks(t, s.Master)
	s.Master.Do(t, "REPLICAOF", "127.0.0.1", "1")
	got := a.await(t, op)
	require.Equal(t, CodeError, got.Code)
	require.Equal(t, ClassUnknown, got.Err.Class)
	require.Contains(t, got.Err.Text, "UNBLOCKED")
	require.False(t, got.Definite())
	s.Replicas[0].Resume()
}
