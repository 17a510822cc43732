// Package rival is what a scenario is measured beside, in turns: the raw pipeline of internal/yardstick, or a mutex.
package rival
