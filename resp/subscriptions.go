package resp

// Subscriptions is how waiters hear of releases at one node: a [SubMux], or what stands for one in a
// simulated world.
type Subscriptions interface {
	// Subscribe is SubMux.Subscribe.
	Subscribe(channel string, w Waker) (Subscription, error)
	// Listens is SubMux.Listens.
	Listens(channel string) bool
	Replace()
	Stats() SubMuxStats
	Close()
}

// A Subscription is one waiter's reference to a channel.
type Subscription interface {
	// Drop gives it back. Blocks: never.
	Drop()
}

// muxed is a SubMux as Subscriptions.
type muxed struct{ *SubMux }

// Subscribe answers no Subscription beside an error.
func (m muxed) Subscribe(channel string, w Waker) (Subscription, error) {
	s, err := m.SubMux.Subscribe(channel, w)
	if err != nil {
		return nil, err
	}
	return s, nil
}
