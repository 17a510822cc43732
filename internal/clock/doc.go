// Package clock tells the time that leases are measured in: one that counts
// suspend, never steps, and can be replaced by a fake.
//
// A lease runs out on the server while this machine sleeps, so the clock that a
// holder trusts must run on during suspend. On Linux that is CLOCK_BOOTTIME, with
// alarms on a timerfd of the same clock. Elsewhere it is the runtime's monotonic
// clock, which may stand still during suspend: after a resume a holder learns of a
// lost lease only from the server. An [Instant] means something only together with
// the [Clock] it was read from, within one boot of one machine.
//
// Reading the clock is a system call on Linux (the runtime offers no vDSO path to
// CLOCK_BOOTTIME): read it once a batch, never once a lock.
package clock
