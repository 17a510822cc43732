// Package redistest gives tests real Redis or Valkey servers, those of package
// redisproc: [Run] and its kin start them, skip the test under -short, fail it where no server is
// installed, and stop them at its end.
//
//	s := redistest.Run(t, redistest.Options{})
//	client := dial(s.Addr())
//	s.Pause()                                   // SIGSTOP: the server hangs
//	s.Resume()
//	require.Equal(t, "1", s.Do(t, "EXISTS", "key"))
//
// The names of redisproc that tests use stand here as well, so that a test imports one package.
package redistest
