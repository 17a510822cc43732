// Package pubsub shares one subscription connection to a Redis node among any number of waiters.
//
// A [Mux] counts the references to each channel: the first one subscribes, and the channel is left some time after the
// last one went. Who waits is woken by a message, and by whatever may have hidden one: the confirmation of the
// subscription, a lost connection, a new one. A probe finds connections that answer and deliver nothing.
//
// It knows Redis' channels and nothing of locks.
package pubsub
