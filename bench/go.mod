module github.com/seed-786ebc8c/holdfast/bench

go 1.25.0

replace github.com/seed-786ebc8c/holdfast => ../

require (
	github.com/redis/rueidis v1.0.79
	github.com/seed-786ebc8c/holdfast v0.0.0
)

require (
	github.com/RussellLuo/timingwheel v0.0.0-20220218152713-54845bda3108 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
