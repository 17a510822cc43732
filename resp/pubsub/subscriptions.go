package pubsub

// Subscriptions is how waiters hear of releases at one node: a [Mux], or what stands for one in a
// simulated world.
type Subscriptions interface {
	// Subscribe is Mux.Subscribe.
	Subscribe(channel string, w Waker) (Subscription, error)
	// Listens is Mux.Listens.
	Listens(channel string) bool
	// Listeners is Mux.Listeners.
	Listeners(channel string) int
	Replace()
	Stats() Stats
	Close()
}

// A Subscription is one waiter's reference to a channel.
type Subscription interface {
	// Drop gives it back. Blocks: never.
	Drop()
}

// muxed is a Mux as Subscriptions.
type muxed struct{ *Mux }

// Subscribe answers no Subscription beside an error.
func (m muxed) Subscribe(channel string, w Waker) (Subscription, error) {
	s, err := m.Mux.Subscribe(channel, w)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open is New for those who know [Subscriptions] only.
func Open(cfg Config) Subscriptions { return muxed{New(cfg)} }
