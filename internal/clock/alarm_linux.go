package clock

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// bootAlarm is an alarm on a timerfd. The descriptor is non-blocking and read
// through an os.File, so the runtime's poller waits for it and no thread does.
type bootAlarm struct {
	clock boottime
	fire  func()
	file  *os.File
	done  chan struct{} // closed when the goroutine has ended

	arming     // its mutex also guards fd: nobody uses it once closed is set
	fd     int // File.Fd would make the descriptor blocking, so it is kept here
}

func newBootAlarm(c boottime, fire func()) (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("clock: timerfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	// A file outside the poller would answer EAGAIN at once; only one inside it
	// takes a deadline.
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("clock: timerfd is not pollable: %w", err)
	}
	a := &bootAlarm{clock: c, fire: fire, file: file, fd: fd, done: make(chan struct{})}
	go a.loop()
	return a, nil
}

func (a *bootAlarm) Arm(at Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.at = max(at, 1) // an all-zero timer value would disarm
	a.setLocked(a.at)
}

func (a *bootAlarm) Disarm() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.at = 0
	a.setLocked(0)
}

// setLocked hands the arming to the kernel, which also forgets an expiry of the
// previous arming that nobody has read. With a valid descriptor and time it cannot fail.
func (a *bootAlarm) setLocked(at Instant) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

func (a *bootAlarm) Close() error {
	var err error
	if a.shut() {
		err = a.file.Close() // wakes the reader
	}
	<-a.done
	return err
}

// loop waits for expiries until the file is closed.
func (a *bootAlarm) loop() {
	defer close(a.done)
	var expiries [8]byte
	for {
		if _, err := a.file.Read(expiries[:]); err != nil {
			return
		}
		if a.take(max(a.clock.Now(), Instant(readBoot()))) { // by the clock of the descriptor: it does not say so twice
			a.fire()
		}
	}
}
