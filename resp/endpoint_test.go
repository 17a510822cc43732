package resp

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// countedClient is a client of which only the end is counted.
type countedClient struct {
	rueidis.Client
	addr   string
	closed int
}

func (c *countedClient) Close() { c.closed++ }

func TestEndpointDialsOnceUntilItIsMoved(t *testing.T) {
	var dialled []string
	p := &endpoint{addr: "a:1", dial: func(addr string) (rueidis.Client, error) {
		dialled = append(dialled, addr)
		return &countedClient{addr: addr}, nil
	}}
	first, err := p.get()
	require.NoError(t, err)
	again, err := p.get()
	require.NoError(t, err)
	require.Same(t, first, again)
	require.Equal(t, "a:1", p.address())

	require.Same(t, first, p.move("b:2"))
	require.EqualValues(t, 1, p.moves.Load())
	require.Equal(t, "b:2", p.address())
	second, err := p.get()
	require.NoError(t, err)
	require.NotSame(t, first, second)
	require.Equal(t, []string{"a:1", "b:2"}, dialled)
	require.Zero(t, first.(*countedClient).closed, "whoever moved it has it")

	p.close()
	p.close()
	require.Equal(t, 1, second.(*countedClient).closed)
	_, err = p.get()
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.Len(t, dialled, 2)
}

func TestEndpointLeavesABorrowedClientOpen(t *testing.T) {
	for _, borrowed := range []bool{false, true} {
		c := &countedClient{}
		fails := error(nil)
		p := &endpoint{borrowed: borrowed, dial: func(string) (rueidis.Client, error) { return c, fails }}
		_, err := p.get()
		require.NoError(t, err)
		p.close()
		require.Equal(t, borrowed, c.closed == 0)

		c, fails = &countedClient{}, errors.New("no")
		p = &endpoint{borrowed: borrowed, dial: p.dial}
		got, err := p.get()
		require.ErrorIs(t, err, fails)
		require.Nil(t, got)
		require.Equal(t, borrowed, c.closed == 0, "rueidis may return both")
		p.close()
		require.LessOrEqual(t, c.closed, 1, "it was not kept")
	}
	none := &endpoint{dial: func(string) (rueidis.Client, error) { return nil, errors.New("no") }}
	_, err := none.get()
	require.Error(t, err)
	none.close()
}
