package main

// silence: servers that accept and say nothing, and what must not pile up behind them.
func silence() []mutant {
	return []mutant{
		{
			"endpoint-dials-for-each", "whoever asks for a silent server adds a dial of his own: connections without end",
			one("resp/endpoint.go", "case d != nil:", "case false:"),
			"resp", "TestEndpointDialsOnceForAllWhoAsk", false,
		},
		{
			"endpoint-keeps-a-late-dial", "a client that nobody closes, after Close",
			one("resp/endpoint.go", "\tcase p.closed:\n\t\terr = rueidis.ErrClosing\n\tcase p.moves", "\tcase p.moves"),
			"resp", "TestEndpointDialsOnceForAllWhoAsk", false,
		},
		{
			"endpoint-takes-the-server-it-left", "locks of the new master asked for at the old one",
			one("resp/endpoint.go", "p.moves.Load() != moves", "p.moves.Load() < moves"),
			"resp", "TestEndpointDialsOnceForAllWhoAsk", false,
		},
		{
			"table-reading-outlives-close", "Close waits two seconds for every three silent masters",
			one("resp/slots.go", "\t\tcase <-ns.stop:\n\t\t\treturn errClosed\n\t\t}\n\t\twaiting--", "\t\t}\n\t\twaiting--"),
			"resp", "TestCloseEndsAReadingOfTheTable", false,
		},
	}
}
