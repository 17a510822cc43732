package yardstick

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
)

// wire is a client with the run's scripts loaded. Commands go out on a background
// context: a context that can end costs rueidis a quarter more.
type wire struct {
	client     rueidis.Client
	scripts    Scripts
	acquireSHA string
	releaseSHA string
}

func load(ctx context.Context, client rueidis.Client, s Scripts) (wire, error) {
	w := wire{client: client, scripts: s}
	for _, l := range []struct {
		to     *string
		script string
	}{{&w.acquireSHA, s.Acquire}, {&w.releaseSHA, s.Release}} {
		sha, err := client.Do(ctx, client.B().ScriptLoad().Script(l.script).Build()).ToString()
		if err != nil {
			return wire{}, fmt.Errorf("load script: %w", err)
		}
		*l.to = sha
	}
	return w, nil
}

// caller builds the commands of one goroutine; args is used again for each.
type caller struct {
	wire
	args []string
}

func (c *caller) acquire(n Name) rueidis.Completed {
	c.args = c.scripts.AcquireArgs(c.args[:0], n)
	return c.client.B().Arbitrary("EVALSHA", c.acquireSHA).Args(c.args...).Build()
}

func (c *caller) release(n Name) rueidis.Completed {
	c.args = c.scripts.ReleaseArgs(c.args[:0], n)
	return c.client.B().Arbitrary("EVALSHA", c.releaseSHA).Args(c.args...).Build()
}

// windowed sends a round as two DoMulti.
type windowed struct {
	caller
	cmds []rueidis.Completed
}

func newWindowed(w wire, width int) sender {
	return &windowed{caller: caller{wire: w}, cmds: make([]rueidis.Completed, 0, width)}
}

func (s *windowed) round(names []Name) (int64, error) {
	wrong, first := s.send(names, s.acquire, s.scripts.Granted)
	bad, err := s.send(names, s.release, s.scripts.Freed)
	if first == nil {
		first = err
	}
	return wrong + bad, first
}

// send sends one command for each name and checks every reply.
func (s *windowed) send(
	names []Name, build func(Name) rueidis.Completed, check func(rueidis.RedisResult) error,
) (wrong int64, first error) {
	s.cmds = s.cmds[:0]
	for _, n := range names {
		s.cmds = append(s.cmds, build(n))
	}
	for i, r := range s.client.DoMulti(context.Background(), s.cmds...) {
		if err := check(r); err != nil {
			wrong++
			if first == nil {
				first = fmt.Errorf("%q: %w", names[i].Key, err)
			}
		}
	}
	return wrong, first
}

// bare sends a round as single Do calls, each after the reply to the one before.
type bare struct{ caller }

func newBare(w wire, _ int) sender { return &bare{caller{wire: w}} }

func (s *bare) round(names []Name) (wrong int64, first error) {
	ctx := context.Background()
	for _, n := range names {
		for _, err := range []error{
			s.scripts.Granted(s.client.Do(ctx, s.acquire(n))),
			s.scripts.Freed(s.client.Do(ctx, s.release(n))),
		} {
			if err != nil {
				wrong++
				if first == nil {
					first = fmt.Errorf("%q: %w", n.Key, err)
				}
			}
		}
	}
	return wrong, first
}
