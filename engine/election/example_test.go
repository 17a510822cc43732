package election_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/seed-786ebc8c/holdfast/engine"
	"github.com/seed-786ebc8c/holdfast/engine/election"
)

// eng stands for the one engine of a process.
var eng *engine.Engine

func schedule(ctx context.Context, _ int64) error { <-ctx.Done(); return nil }

// One of many processes schedules; SIGTERM makes it resign, so that another does at once.
func ExampleElection_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	el := election.New(eng, "scheduler")
	err := el.Run(ctx, func(ctx context.Context, term *election.Term) error {
		return schedule(ctx, term.Token()) // ctx ends with the term, and with the program
	})
	log.Print("ended: ", err)
}
