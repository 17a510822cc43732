module github.com/seed-786ebc8c/holdfast/bench

go 1.25.0

replace github.com/seed-786ebc8c/holdfast => ../

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/bsm/redislock v0.9.4
	github.com/redis/go-redis/v9 v9.17.2
	github.com/redis/rueidis v1.0.79
	github.com/seed-786ebc8c/holdfast v0.0.0
)
