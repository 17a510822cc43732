// Package goredis lets a program that uses go-redis write down once where its Redis is:
//
//	options := &redis.UniversalOptions{Addrs: addrs, Username: user, Password: password, TLSConfig: tlsConfig}
//	client := redis.NewUniversalClient(options)
//	cfg, err := goredis.Config(options)
//	...
//	eng, err := engine.Open(ctx, cfg)
//
// The engine makes connections of its own: it does not use those of the client.
//
// Addresses, user, password, database, client name, TLS, the name of the master and the credentials of sentinels, and
// whether it is a cluster are taken. Options that decide how or as whom connections are made, or that read from
// replicas, cannot be kept: Config refuses them by name. Options of pools, timeouts, retries, buffers, protocol and
// identity are ignored, for the engine has its own: see ClientOption there.
package goredis
