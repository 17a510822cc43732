package pace

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A napper sleeps to within the system's timer slack (some 50 µs), and leaves the processor to others meanwhile: the
// runtime's timers are a millisecond coarse when the process is idle, and a system call that sleeps would keep the only
// processor from the clients for up to 10 ms. The runtime waits for its file as for a connection.
type napper struct {
	file *os.File // a timerfd; nil: there is none to be had
	fd   int
}

func newNapper() *napper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &napper{}
	}
	return &napper{os.NewFile(uintptr(fd), "timerfd"), fd}
}

// nap sleeps for d.
func (n *napper) nap(d time.Duration) {
	var fired [8]byte
	timer := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(d), 1))}
	if n.file == nil || unix.TimerfdSettime(n.fd, 0, &timer, nil) != nil {
		time.Sleep(d)
		return
	}
	_, _ = n.file.Read(fired[:]) // one that ends early shows in the caller's clock
}

// close ends it.
func (n *napper) close() { _ = n.file.Close() } // also of none
