package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/internal/redistest"
	"github.com/seed-786ebc8c/holdfast/internal/testkit"
)

// post asks a handler to work on an order.
func post(h http.Handler, id string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/"+id+"/pay", nil))
	return w
}

func TestOneRequestOfAnOrderAtATimeOverTwoProcesses(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	begun, end := make(chan string, 2), make(chan struct{})
	work := func(_ context.Context, id string) error {
		begun <- id
		<-end
		return nil
	}
	one := handler(testkit.Open(t, s.Addr()), work)
	two := handler(testkit.Open(t, s.Addr()), work)

	first, other := make(chan *httptest.ResponseRecorder, 1), make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- post(one, "42") }()
	require.Equal(t, "42", <-begun)
	busy := post(two, "42")
	require.Equal(t, http.StatusConflict, busy.Code)
	require.Contains(t, []string{"1", "2"}, busy.Header().Get("Retry-After"), "it is spread")
	go func() { other <- post(two, "43") }() // another order does not wait
	require.Equal(t, "43", <-begun)
	close(end)
	require.Equal(t, http.StatusOK, (<-first).Code)
	require.Equal(t, http.StatusOK, (<-other).Code)
	require.Equal(t, http.StatusOK, post(two, "42").Code, "it is free again")
	require.Equal(t, http.StatusNotFound, post(two, strings.Repeat("x", 4<<10)).Code)
}

func TestWorkStopsWhenItsLockIsLost(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	eng := testkit.Open(t, s.Addr())
	ended := make(chan error, 1)
	h := handler(eng, func(ctx context.Context, id string) error {
		was, err := eng.Lock("order:" + id).ForceRelease(context.WithoutCancel(ctx)) // by an operator
		if err != nil || !was {
			return err
		}
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-time.After(testkit.TooLong):
			ended <- nil
		}
		return nil
	})
	require.Equal(t, http.StatusServiceUnavailable, post(h, "42").Code)
	require.ErrorIs(t, <-ended, engine.ErrLost)
}

func TestAServerThatIsGoneIsNoConflict(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	h := handler(testkit.Open(t, s.Addr()), pay)
	s.Pause()
	w := post(h, "42")
	s.Resume()
	require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
	require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
}

// Do may fail after its work: nobody is asked to pay again for that.
func TestOnlyWhatWasNotBegunIsTriedAgain(t *testing.T) {
	unknown := error(&engine.UnknownError{Name: "order:42"})
	for _, c := range []struct {
		how    progress
		err    error
		status int
	}{
		{done, nil, http.StatusOK},
		{done, unknown, http.StatusOK},
		{done, engine.ErrLost, http.StatusServiceUnavailable},
		{begun, errors.Join(errors.New("no money"), unknown), http.StatusInternalServerError},
		{notBegun, unknown, http.StatusServiceUnavailable},
		{notBegun, engine.ErrOverloaded, http.StatusServiceUnavailable},
		{notBegun, engine.ErrClosed, http.StatusServiceUnavailable},
		{begun, engine.ErrClosed, http.StatusServiceUnavailable},
		{begun, engine.ErrNotHeld, http.StatusServiceUnavailable},
	} {
		w := httptest.NewRecorder()
		answer(w, "42", c.how, c.err)
		require.Equal(t, c.status, w.Code, "%v after %v", c.err, c.how)
		again := w.Header().Get("Retry-After") != ""
		require.Equal(t, c.how == notBegun && c.status == http.StatusServiceUnavailable, again)
	}
}

func TestRunAnswersAndEndsWithItsContext(t *testing.T) {
	s := redistest.Run(t, redistest.Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, s.Addr(), l) }()
	answer, err := http.Post("http://"+l.Addr().String()+"/orders/42/pay", "", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, "0", s.Do(t, "DBSIZE"))
}
